#include "tests/fakes/fake_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tidepool::fakes {

using runtime::DevicePtr;
using runtime::DeviceResult;
using runtime::kInvalidValue;
using runtime::kNotSupported;
using runtime::kOk;
using runtime::kOutOfMemory;
using runtime::PhysicalHandle;
using runtime::Status;

FakeMemory::Physical::Physical(FakeMemory* memory, Bytes size, std::uint64_t handle)
    : owner(memory), number(handle) {
  bytes.resize(size.count(), static_cast<std::byte>(0xA0 + number % 32));
  owner->in_use_ += size;
  owner->peak_ = std::max(owner->peak_, owner->in_use_);
}

FakeMemory::Physical::~Physical() {
  owner->in_use_ -= Bytes(bytes.size());
}

bool FakeMemory::is_aligned(std::uint64_t value) const noexcept {
  return Bytes(value).is_multiple_of(granularity_);
}

bool FakeMemory::inside_reservation(std::uint64_t base, std::uint64_t size) const {
  auto next = reservations_.upper_bound(base);
  if (next == reservations_.begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return base - start <= length && size <= length - (base - start);
}

FakeMemory::Mappings::const_iterator FakeMemory::mapping_of(std::uint64_t address) const {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return mappings_.end();
  auto found = std::prev(next);
  return address - found->first < found->second.size ? found : mappings_.end();
}

bool FakeMemory::covered_exactly(std::uint64_t base, std::uint64_t size) const {
  std::uint64_t position = base;
  while (position - base < size) {
    const auto found = mappings_.find(position);
    if (found == mappings_.end()) return false;
    position += found->second.size;
  }
  return position - base == size;
}

bool FakeMemory::is_bare(DevicePtr at, Bytes size) const {
  const std::uint64_t base = at.address();
  if (!is_aligned(base) || !is_aligned(size.count()) || size.count() == 0) return false;
  if (!inside_reservation(base, size.count())) return false;
  const auto next = mappings_.lower_bound(base);
  return mapping_of(base) == mappings_.end() &&
         (next == mappings_.end() || next->first - base >= size.count());
}

std::shared_ptr<FakeMemory::Physical> FakeMemory::physical_of(std::uint64_t handle) const {
  const auto held = handles_.find(handle);
  if (held != handles_.end()) return held->second;
  for (const auto& [base, mapping] : mappings_) {
    if (mapping.physical->number == handle) return mapping.physical;
  }
  return nullptr;
}

DeviceResult<DevicePtr> FakeMemory::reserve(Bytes size) {
  if (size.count() == 0 || !is_aligned(size.count())) return Err{kInvalidValue};
  const std::uint64_t base = next_address_;
  // Reservations never touch, so that running off one end is noticed.
  next_address_ += size.count() + granularity_.count();
  reservations_.emplace(base, size.count());
  return DevicePtr(base);
}

Status FakeMemory::release_addresses(DevicePtr base, Bytes size) {
  const auto found = reservations_.find(base.address());
  if (found == reservations_.end() || found->second != size.count()) return kInvalidValue;
  const auto first = mappings_.lower_bound(base.address());
  if (first != mappings_.end() && first->first - base.address() < size.count()) return kInvalidValue;
  reservations_.erase(found);
  return kOk;
}

DeviceResult<PhysicalHandle> FakeMemory::create(Bytes size) {
  if (size.count() == 0 || !is_aligned(size.count())) return Err{kInvalidValue};
  if (size > total_ - in_use_) return Err{kOutOfMemory};
  const std::uint64_t handle = next_handle_++;
  handles_.emplace(handle, std::make_shared<Physical>(this, size, handle));
  return PhysicalHandle{handle};
}

Status FakeMemory::destroy(PhysicalHandle handle) {
  return handles_.erase(static_cast<std::uint64_t>(handle)) == 1 ? kOk : kInvalidValue;
}

Status FakeMemory::map(DevicePtr at, Bytes size, PhysicalHandle handle) {
  auto physical = physical_of(static_cast<std::uint64_t>(handle));
  if (physical == nullptr || size.count() > physical->bytes.size()) return kInvalidValue;
  if (size.count() != physical->bytes.size()) return kNotSupported;
  if (!is_aligned(at.address()) || !inside_reservation(at.address(), size.count())) return kInvalidValue;
  const auto next = mappings_.lower_bound(at.address());
  const bool overlaps_next = next != mappings_.end() && next->first - at.address() < size.count();
  if (overlaps_next || mapping_of(at.address()) != mappings_.end()) return kInvalidValue;
  mappings_.emplace(at.address(), Mapping{size.count(), std::move(physical), false});
  return kOk;
}

Status FakeMemory::unmap(DevicePtr at, Bytes size) {
  if (size.count() == 0) return kInvalidValue;
  if (is_bare(at, size)) return kOk;
  if (!covered_exactly(at.address(), size.count())) return kInvalidValue;
  mappings_.erase(mappings_.lower_bound(at.address()), mappings_.lower_bound(at.address() + size.count()));
  return kOk;
}

Status FakeMemory::set_access(DevicePtr at, Bytes size) {
  if (size.count() == 0 || !covered_exactly(at.address(), size.count())) return kInvalidValue;
  const auto end = mappings_.lower_bound(at.address() + size.count());
  for (auto it = mappings_.lower_bound(at.address()); it != end; ++it) it->second.access = true;
  return kOk;
}

template <class F>
bool FakeMemory::along(std::uint64_t base, std::uint64_t size, F f) const {
  for (std::uint64_t done = 0; done < size;) {
    const auto found = mapping_of(base + done);
    if (found == mappings_.end() || !found->second.access) return false;
    const std::uint64_t offset = base + done - found->first;
    const std::uint64_t count = std::min(size - done, found->second.size - offset);
    f(found->second.physical->bytes.data() + offset, done, count);
    done += count;
  }
  return true;
}

bool FakeMemory::read(DevicePtr at, void* out, Bytes size) const {
  if (!along(at.address(), size.count(), [](const std::byte*, std::uint64_t, std::uint64_t) {})) return false;
  return along(at.address(), size.count(),
               [&](const std::byte* bytes, std::uint64_t done, std::uint64_t count) {
                 std::memcpy(static_cast<std::byte*>(out) + done, bytes, count);
               });
}

bool FakeMemory::write(DevicePtr at, const void* in, Bytes size) {
  if (!along(at.address(), size.count(), [](const std::byte*, std::uint64_t, std::uint64_t) {})) return false;
  return along(at.address(), size.count(), [&](std::byte* bytes, std::uint64_t done, std::uint64_t count) {
    std::memcpy(bytes, static_cast<const std::byte*>(in) + done, count);
  });
}

}  // namespace tidepool::fakes
