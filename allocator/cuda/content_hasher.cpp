#include "allocator/cuda/content_hasher.h"

#include <algorithm>

#include "allocator/support/content_hash_kernel.h"

/// The fat binary made of content_hash.cu (tp_cuda_image).
extern "C" __attribute__((visibility("hidden"))) const unsigned char
    tp_content_hash_image[];  // NOLINT(readability-identifier-naming): a symbol of the assembler's

namespace tidepool::runtime {

static_assert(sizeof(HashControl) + kHashSlots * sizeof(HashSlot) <= Device::kHashMemory.count());

namespace {

Status status_of(CUresult result) noexcept {
  return Status(static_cast<int>(result));
}

}  // namespace

Status ContentHasher::load(CUdevice ordinal, CUdeviceptr memory) noexcept {
  State seen = State::kUnloaded;
  if (!state_.compare_exchange_strong(seen, State::kLoading, std::memory_order_acquire)) {
    if (seen == State::kLoaded) return kOk;
    return seen == State::kFailed ? failure_ : kNotReady;
  }
  const Status status = find_all(ordinal);
  if (status.ok()) {
    memory_ = memory;
    state_.store(State::kLoaded, std::memory_order_release);
  } else if (status == kOutOfMemory) {
    state_.store(State::kUnloaded, std::memory_order_release);
  } else {
    failure_ = status;
    state_.store(State::kFailed, std::memory_order_release);
  }
  return status;
}

// Asking how many blocks fit makes the driver load its code now: a driver that loads at the first launch
// may wait for all that the device is doing (CUDA Programming Guide, "Lazy Loading").
Status ContentHasher::find_all(CUdevice ordinal) noexcept {
  int multiprocessors = 0;
  int resident_blocks = 0;
  CUresult result =
      driver_.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
  // After an error further on, the module is there at the next try.
  if (result == CUDA_SUCCESS && module_ == nullptr)
    result = driver_.cuModuleLoadData(&module_, static_cast<const void*>(tp_content_hash_image));
  if (result == CUDA_SUCCESS) result = driver_.cuModuleGetFunction(&kernel_, module_, kHashKernelName);
  if (result == CUDA_SUCCESS)
    result = driver_.cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident_blocks, kernel_,
                                                                 HashContent::kThreads, 0);
  if (result != CUDA_SUCCESS) return status_of(result);
  if (multiprocessors <= 0 || kernel_ == nullptr || resident_blocks <= 0) return kNotSupported;
  full_grid_ = static_cast<unsigned>(multiprocessors * resident_blocks);
  return kOk;
}

ContentHasher::Slot* ContentHasher::take_slot() noexcept {
  for (unsigned tries = 0; tries < kHashSlots; ++tries) {
    Slot& slot = slots_[next_.fetch_add(1, std::memory_order_relaxed) % kHashSlots];
    if (!slot.taken.exchange(true, std::memory_order_acquire)) return &slot;
  }
  return nullptr;
}

unsigned ContentHasher::grid_for(std::size_t size) const noexcept {
  constexpr std::size_t kBytesPerBlock = HashContent::kThreads * sizeof(WordPair) * kUnrolledPairs;
  const std::size_t blocks = (size + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, full_grid_));
}

Status ContentHasher::hash(void* host, CUdeviceptr device, std::size_t size, std::uint64_t number,
                           CUstream stream) noexcept {
  if (state_.load(std::memory_order_acquire) != State::kLoaded) return kNotSupported;
  Slot* slot = take_slot();
  if (slot == nullptr) return kNotReady;
  bool dirty = false;
  const Status status = enqueue(*slot, host, device, size, number, stream, &dirty);
  // A slot with work that no event tells of can never be used again. That takes a driver that fails.
  if (!dirty) slot->taken.store(false, std::memory_order_release);
  return status;
}

Status ContentHasher::enqueue(Slot& slot, void* host, CUdeviceptr device, std::size_t size,
                              std::uint64_t number, CUstream stream, bool* dirty) noexcept {
  if (slot.done == nullptr) {
    const CUresult made = driver_.cuEventCreate(&slot.done, CU_EVENT_DISABLE_TIMING);
    if (made != CUDA_SUCCESS) return status_of(made);
  }
  CUresult result = driver_.cuStreamWaitEvent(stream, slot.done, 0);
  if (result != CUDA_SUCCESS) return status_of(result);

  CUdeviceptr control = memory_;
  CUdeviceptr at =
      memory_ + sizeof(HashControl) + static_cast<std::size_t>(&slot - slots_.data()) * sizeof(HashSlot);
  unsigned long long bytes = size;
  unsigned long long with_number = number;
  void* parameters[] = {&device, &bytes, &at, &control, &with_number, nullptr};
  result = driver_.cuLaunchKernel(kernel_, grid_for(size), 1, 1, HashContent::kThreads, 1, 1, 0, stream,
                                  static_cast<void**>(parameters), nullptr);
  if (result != CUDA_SUCCESS) return status_of(result);
  *dirty = true;
  const CUresult copied =
      driver_.cuMemcpyDtoHAsync_v2(host, at + offsetof(HashSlot, hash), sizeof(ContentHash), stream);
  result = driver_.cuEventRecord(slot.done, stream);
  *dirty = result != CUDA_SUCCESS;
  return status_of(copied != CUDA_SUCCESS ? copied : result);
}

}  // namespace tidepool::runtime
