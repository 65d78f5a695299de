#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "tools/workloads/common/options.h"

namespace workload {

/// Device memory of one replica, allocated in one of four ways. All of them follow one rule, that of
/// stream-ordered allocation: memory is for work that is queued after allocate(), and is free for others once
/// the work that was in the replica's main stream at release() is done. Work on other streams is brought into
/// that order by Lanes::fork and Lanes::join. For one thread. Failure ends the program.
class Memory {
 public:
  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// At least `bytes` (not zero) with undefined contents, aligned to 256.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
};

/// kPlain: cudaMalloc, and cudaFree, which waits for the device. kAsync: cudaMallocAsync and cudaFreeAsync in
/// `main`. kPool: the same from an explicit pool that keeps some memory. kVmm: make_vmm_memory().
std::unique_ptr<Memory> make_memory(Allocator kind, cudaStream_t main);

/// Addresses by cuMemAddressReserve, memory by cuMemCreate, cuMemMap and cuMemSetAccess, all through entry
/// points that the runtime finds. Small arrays share a piece of the smallest size that can be mapped; each
/// other one has its own.
std::unique_ptr<Memory> make_vmm_memory(cudaStream_t main);

/// An array in device memory that is released with this object.
template <class T>
class Array {
 public:
  Array() = default;
  Array(Memory& memory, std::size_t count)
      : memory_(&memory), data_(static_cast<T*>(memory.allocate(count * sizeof(T)))), count_(count) {}
  ~Array() { reset(); }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array moved(std::move(other));
    swap(moved);
    return *this;
  }

  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }

  void reset() {
    if (data_ != nullptr) memory_->release(data_);
    data_ = nullptr;
    count_ = 0;
  }

 private:
  void swap(Array& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  Memory* memory_ = nullptr;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

using Floats = Array<float>;

}  // namespace workload
