#include "tests/fakes/fake_device.h"

#include <cstring>
#include <sstream>
#include <utility>

#include "allocator/support/content_hash_kernel.h"

namespace tidepool::fakes {

using runtime::DevicePtr;
using runtime::DeviceResult;
using runtime::EventHandle;
using runtime::kInvalidValue;
using runtime::kNotReady;
using runtime::kNotSupported;
using runtime::kOk;
using runtime::PhysicalHandle;
using runtime::Status;
using runtime::StreamHandle;

namespace {

std::string range_text(DevicePtr at, Bytes size) {
  std::ostringstream text;
  text << "0x" << std::hex << at.address() << std::dec << " + " << size.count();
  return text.str();
}

}  // namespace

void FakeDevice::Access::read(DevicePtr at, void* out, Bytes size) {
  if (!device_.memory_.read(at, out, size)) {
    device_.end_device(what_ + " reads unmapped " + range_text(at, size));
  }
}

void FakeDevice::Access::write(DevicePtr at, const void* in, Bytes size) {
  if (!device_.memory_.write(at, in, size)) {
    device_.end_device(what_ + " writes unmapped " + range_text(at, size));
  }
}

Status FakeDevice::enter(std::string_view function) {
  auto counter = calls_.find(function);
  if (counter == calls_.end()) counter = calls_.emplace(function, 0).first;
  ++counter->second;
  const CallFault fault = faults_.on_call(function);
  if (fault.action == CallFault::Action::kFail) return Status(fault.code);
  return ended_ ? kIllegalAddress : kOk;
}

std::uint64_t FakeDevice::calls(std::string_view function) const {
  const Lock lock(mutex_);
  const auto counter = calls_.find(function);
  return counter == calls_.end() ? 0 : counter->second;
}

Status FakeDevice::refuse(std::string what) {
  errors_.push_back(std::move(what));
  return kInvalidValue;
}

void FakeDevice::end_device(std::string what) {
  errors_.push_back(std::move(what));
  ended_ = true;
}

StreamHandle FakeDevice::create_program_stream(bool blocking) {
  const Lock lock(mutex_);
  return queue_.create_stream(blocking);
}

Status FakeDevice::submit_to(StreamHandle stream, std::string name, std::function<void(Access&)> work,
                             void (FakeQueue::*push)(StreamHandle, FakeQueue::Work)) {
  const Lock lock(mutex_);
  if (const Status early = enter("submit"); !early.ok()) return early;
  if (!queue_.has_stream(stream)) return refuse("submit to an unknown stream");
  (queue_.*push)(stream, [this, name = std::move(name), work = std::move(work)] {
    if (ended_) return;
    Access access(*this, name);
    work(access);
  });
  return kOk;
}

Status FakeDevice::submit(StreamHandle stream, std::string name, std::function<void(Access&)> work) {
  return submit_to(stream, std::move(name), std::move(work), &FakeQueue::push_kernel);
}

Status FakeDevice::submit_copy(StreamHandle stream, std::string name, std::function<void(Access&)> work) {
  return submit_to(stream, std::move(name), std::move(work), &FakeQueue::push);
}

Status FakeDevice::submit_fill(StreamHandle stream, DevicePtr at, Bytes size, std::uint8_t value) {
  return submit(stream, "fill", [at, size, value](Access& access) {
    const std::vector<std::uint8_t> bytes(size.count(), value);
    access.write(at, bytes.data(), size);
  });
}

void FakeDevice::hold(StreamHandle stream) {
  const Lock lock(mutex_);
  queue_.hold(stream);
}

void FakeDevice::end_hold(StreamHandle stream) {
  const Lock lock(mutex_);
  queue_.end_hold(stream);
}

void FakeDevice::begin_full() {
  const Lock lock(mutex_);
  queue_.set_multiprocessors(false);
}

void FakeDevice::end_full() {
  const Lock lock(mutex_);
  queue_.set_multiprocessors(true);
}

std::size_t FakeDevice::run_some(std::size_t count) {
  const Lock lock(mutex_);
  std::size_t ran = 0;
  while (ran < count && queue_.run_one()) ++ran;
  return ran;
}

void FakeDevice::run_all() {
  run_some(~std::size_t{0});
}

std::size_t FakeDevice::pending() const {
  const Lock lock(mutex_);
  return queue_.pending();
}

bool FakeDevice::peek(DevicePtr at, void* out, Bytes size) const {
  const Lock lock(mutex_);
  return memory_.read(at, out, size);
}

std::vector<std::string> FakeDevice::errors() const {
  const Lock lock(mutex_);
  return errors_;
}

Bytes FakeDevice::in_use() const {
  const Lock lock(mutex_);
  return memory_.in_use();
}

Bytes FakeDevice::peak() const {
  const Lock lock(mutex_);
  return memory_.peak();
}

std::size_t FakeDevice::mappings() const {
  const Lock lock(mutex_);
  return memory_.mappings();
}

Bytes FakeDevice::copied_to_host() const {
  const Lock lock(mutex_);
  return copied_to_host_;
}

Bytes FakeDevice::copied_to_device() const {
  const Lock lock(mutex_);
  return copied_to_device_;
}

DeviceResult<DevicePtr> FakeDevice::reserve(Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("reserve"); !early.ok()) return Err{early};
  return memory_.reserve(size);
}

Status FakeDevice::release_addresses(DevicePtr base, Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("release_addresses"); !early.ok()) return early;
  return memory_.release_addresses(base, size);
}

DeviceResult<PhysicalHandle> FakeDevice::create(Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("create"); !early.ok()) return Err{early};
  return memory_.create(size);
}

Status FakeDevice::destroy(PhysicalHandle handle) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("destroy"); !early.ok()) return early;
  return memory_.destroy(handle);
}

Status FakeDevice::map(DevicePtr at, Bytes size, PhysicalHandle handle) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("map"); !early.ok()) return early;
  return memory_.map(at, size, handle);
}

Status FakeDevice::unmap(DevicePtr at, Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("unmap"); !early.ok()) return early;
  // A driver says nothing; whoever does it has lost count of what is mapped.
  if (memory_.is_bare(at, size)) errors_.push_back("unmap where nothing is mapped: " + range_text(at, size));
  return memory_.unmap(at, size);
}

Status FakeDevice::set_access(DevicePtr at, Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("set_access"); !early.ok()) return early;
  return memory_.set_access(at, size);
}

DeviceResult<StreamHandle> FakeDevice::create_stream() noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("create_stream"); !early.ok()) return Err{early};
  return queue_.create_stream(false);
}

DeviceResult<EventHandle> FakeDevice::create_event() noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("create_event"); !early.ok()) return Err{early};
  return queue_.create_event();
}

Status FakeDevice::destroy_event(EventHandle event) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("destroy_event"); !early.ok()) return early;
  return queue_.destroy_event(event) ? kOk : kInvalidValue;
}

Status FakeDevice::record(EventHandle event, StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("record"); !early.ok()) return early;
  if (!queue_.has_event(event) || !queue_.has_stream(stream)) return kInvalidValue;
  queue_.record(event, stream);
  return kOk;
}

Status FakeDevice::wait(StreamHandle stream, EventHandle event) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("wait"); !early.ok()) return early;
  if (!queue_.has_event(event) || !queue_.has_stream(stream)) return kInvalidValue;
  queue_.wait(stream, event);
  return kOk;
}

Status FakeDevice::query(EventHandle event) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("query"); !early.ok()) return early;
  if (!queue_.has_event(event)) return kInvalidValue;
  if (queue_.is_done(event)) return kOk;
  // Late, but not for ever: a caller that polls must get there.
  const std::size_t steps = ++unready_queries_ % 8 == 0 ? 1 : queue_.draw(2);
  for (std::size_t i = 0; i < steps; ++i) queue_.run_one();
  if (ended_) return kIllegalAddress;
  return queue_.is_done(event) ? kOk : kNotReady;
}

Status FakeDevice::copy_to_host(void* host, DevicePtr device, Bytes size, StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("copy_to_host"); !early.ok()) return early;
  if (!queue_.has_stream(stream)) return kInvalidValue;
  if (!is_registered(host, size)) return refuse("copy_to_host into memory that is not registered");
  queue_.push(stream, [=, this] {
    if (ended_) return;
    if (!is_registered(host, size)) return end_device("copy_to_host after its host memory was unregistered");
    if (!memory_.read(device, host, size)) {
      return end_device("copy_to_host reads unmapped " + range_text(device, size));
    }
    copied_to_host_ += size;
  });
  return kOk;
}

Status FakeDevice::copy_to_device(DevicePtr device, const void* host, Bytes size,
                                  StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("copy_to_device"); !early.ok()) return early;
  if (!queue_.has_stream(stream)) return kInvalidValue;
  if (!is_registered(host, size)) return refuse("copy_to_device from memory that is not registered");
  queue_.push(stream, [=, this] {
    if (ended_) return;
    if (!is_registered(host, size))
      return end_device("copy_to_device after its host memory was unregistered");
    if (!memory_.write(device, host, size)) {
      return end_device("copy_to_device writes unmapped " + range_text(device, size));
    }
    copied_to_device_ += size;
  });
  return kOk;
}

Status FakeDevice::prepare_hash(DevicePtr memory) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("prepare_hash"); !early.ok()) return early;
  if (hash_memory_ == DevicePtr()) hash_memory_ = memory;
  return kOk;
}

Status FakeDevice::hash_to_host(void* host, DevicePtr device, Bytes size, std::uint64_t number,
                                StreamHandle stream) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("hash_to_host"); !early.ok()) return early;
  if (hash_memory_ == DevicePtr()) return kNotSupported;
  if (!queue_.has_stream(stream) || size.count() == 0) return kInvalidValue;
  if (!is_registered(host, Bytes(sizeof(ContentHash))))
    return refuse("hash_to_host into memory that is not registered");
  queue_.push_kernel(stream, [=, this] {
    if (ended_) return;
    if (!is_registered(host, Bytes(sizeof(ContentHash))))
      return end_device("hash_to_host after its host memory was unregistered");
    HashControl control{};
    std::vector<std::uint8_t> slots(kHashMemory.count() - sizeof control);
    if (!memory_.read(hash_memory_, &control, Bytes(sizeof control)) ||
        !memory_.read(hash_memory_ + Bytes(sizeof control), slots.data(), Bytes(slots.size())))
      return end_device("hash_to_host without its memory, " + range_text(hash_memory_, kHashMemory));
    if (slots != std::vector<std::uint8_t>(slots.size()))
      return end_device("hash_to_host in memory that is not zero");
    if (control.void_up_to >= number) {
      std::memset(host, 0xee, sizeof(ContentHash));
      return;
    }
    std::vector<std::uint8_t> bytes(size.count());
    if (!memory_.read(device, bytes.data(), size))
      return end_device("hash_to_host reads unmapped " + range_text(device, size));
    const ContentHash hash = content_hash(bytes.data(), hashes_lie_ ? 0 : bytes.size());
    std::memcpy(host, &hash, sizeof hash);
  });
  return kOk;
}

void FakeDevice::lie_about_hashes() {
  const Lock lock(mutex_);
  hashes_lie_ = true;
}

bool FakeDevice::is_registered(const void* base, Bytes size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  auto next = registered_.upper_bound(address);
  if (next == registered_.begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return address - start <= length && size.count() <= length - (address - start);
}

Status FakeDevice::register_host(void* base, Bytes size) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("register_host"); !early.ok()) return early;
  if (base == nullptr || size.count() == 0) return kInvalidValue;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const auto next = registered_.lower_bound(address);
  const bool overlaps_next = next != registered_.end() && next->first - address < size.count();
  // CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
  if (overlaps_next || is_registered(base, Bytes(1))) return Status(712);
  registered_.emplace(address, size.count());
  return kOk;
}

Status FakeDevice::unregister_host(void* base) noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("unregister_host"); !early.ok()) return early;
  // CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
  return registered_.erase(reinterpret_cast<std::uintptr_t>(base)) == 1 ? kOk : Status(713);
}

Status FakeDevice::synchronize() noexcept {
  const Lock lock(mutex_);
  if (const Status early = enter("synchronize"); !early.ok()) return early;
  run_all();
  return ended_ ? kIllegalAddress : kOk;
}

}  // namespace tidepool::fakes
