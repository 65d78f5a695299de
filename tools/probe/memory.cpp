#include "tools/probe/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace tidepool::probe {

Handle::~Handle() {
  if (held_) (void)cu().cuMemRelease(id_);
}

Handle::Handle(Handle&& other) noexcept : id_(other.id_), held_(std::exchange(other.held_, false)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(held_, other.held_);
  return *this;
}

void Handle::create(const Gpu& gpu, std::uint64_t bytes) {
  const CUmemAllocationProp wanted = gpu.properties();
  TP_CU(cuMemCreate, &id_, bytes, &wanted, 0ULL);
  held_ = true;
}

void Handle::release() {
  held_ = false;
  TP_CU(cuMemRelease, id_);
}

Window::Window(const Gpu& gpu, std::size_t units, std::uint64_t unit_bytes)
    : device_(gpu.device()), unit_bytes_(unit_bytes), mapped_(units, false) {
  TP_CU(cuMemAddressReserve, &base_, units * unit_bytes, 0U, CUdeviceptr{0}, 0ULL);
}

Window::~Window() {
  for (std::size_t unit = 0; unit < mapped_.size(); ++unit) {
    if (mapped_[unit]) (void)cu().cuMemUnmap(at(unit), unit_bytes_);
  }
  (void)cu().cuMemAddressFree(base_, mapped_.size() * unit_bytes_);
}

void Window::map(std::size_t unit, const Handle& handle) {
  TP_CU(cuMemMap, at(unit), unit_bytes_, 0U, handle.id(), 0ULL);
  mapped_[unit] = true;
}

void Window::set_access(std::size_t first, std::size_t count) const {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  TP_CU(cuMemSetAccess, at(first), count * unit_bytes_, &access, 1U);
}

void Window::unmap(std::size_t first, std::size_t count) {
  TP_CU(cuMemUnmap, at(first), count * unit_bytes_);
  std::fill_n(mapped_.begin() + static_cast<std::ptrdiff_t>(first), count, false);
}

DeviceBuffer::DeviceBuffer(std::uint64_t bytes) {
  TP_CU(cuMemAlloc_v2, &base_, bytes);
  TP_CU(cuMemsetD8_v2, base_, static_cast<unsigned char>(0), bytes);
  TP_CU(cuCtxSynchronize);
}

DeviceBuffer::~DeviceBuffer() {
  (void)cu().cuMemFree_v2(base_);
}

void* map_host(std::uint64_t bytes, bool huge_pages) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  if (::madvise(base, bytes, MADV_DONTFORK) != 0 ||
      (huge_pages && ::madvise(base, bytes, MADV_HUGEPAGE) != 0)) {
    ::munmap(base, bytes);
    return nullptr;
  }
  return base;
}

void unmap_host(void* base, std::uint64_t bytes) {
  ::munmap(base, bytes);
}

PinnedBuffer::PinnedBuffer(std::uint64_t bytes) : base_(map_host(bytes)), bytes_(bytes) {
  if (base_ == nullptr) throw DriverError("mmap", CUDA_ERROR_OUT_OF_MEMORY);
  const CUresult result = cu().cuMemHostRegister_v2(base_, bytes_, CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return;
  unmap_host(base_, bytes_);
  throw DriverError("cuMemHostRegister_v2", result);
}

PinnedBuffer::~PinnedBuffer() {
  (void)cu().cuCtxSynchronize();  // a copy that a failure left behind may still use it
  (void)cu().cuMemHostUnregister(base_);
  unmap_host(base_, bytes_);
}

Stream::Stream() {
  TP_CU(cuStreamCreate, &stream_, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
}

Stream::~Stream() {
  (void)cu().cuStreamDestroy_v2(stream_);
}

void Stream::synchronize() const {
  TP_CU(cuStreamSynchronize, stream_);
}

Event::Event(unsigned flags) {
  TP_CU(cuEventCreate, &event_, flags);
}

Event::~Event() {
  (void)cu().cuEventDestroy_v2(event_);
}

void Event::record(const Stream& stream) const {
  TP_CU(cuEventRecord, event_, stream.get());
}

void Event::hold(const Stream& stream) const {
  TP_CU(cuStreamWaitEvent, stream.get(), event_, 0U);
}

double Event::ns_since(const Event& from) const {
  constexpr double kNanosPerMilli = 1e6;
  float ms = 0;
  call_driver(cu().event_elapsed, "cuEventElapsedTime", &ms, from.event_, event_);
  return static_cast<double>(ms) * kNanosPerMilli;
}

}  // namespace tidepool::probe
