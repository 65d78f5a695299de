#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "tools/simgpu/driver/cuda_api.h"

namespace simgpu {

struct Context;

/// Page-locked host memory: allocated by the driver or registered by the program.
struct PinnedRange {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  unsigned flags = 0;      ///< of cuMemHostAlloc, also for registered memory (portable, mapped)
  bool allocated = false;  ///< by cuMemHostAlloc; otherwise registered
  Context* owner = nullptr;
  bool managed = false;   ///< cuMemAllocManaged, or a variable
  bool variable = false;  ///< __managed__: ends with its library, whatever becomes of the owner
  bool read_mostly = false;
  int preferred = CU_DEVICE_INVALID;      ///< device, CU_DEVICE_CPU or CU_DEVICE_INVALID
  int prefetched_to = CU_DEVICE_INVALID;  ///< the same
};

/// What host memory is pinned. Not thread-safe: the device lock protects it.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  CUresult allocate(std::uint64_t size, unsigned flags, Context* owner, void** out);
  CUresult free(void* base);
  /// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if any byte is pinned, CUDA_ERROR_INVALID_VALUE if a page is
  /// not mapped.
  CUresult register_range(void* base, std::uint64_t size, unsigned flags, Context* owner);
  CUresult unregister(void* base);
  void free_all_of(const Context* owner);

  [[nodiscard]] const PinnedRange* range_at(std::uint64_t address) const;
  [[nodiscard]] PinnedRange* range_at(std::uint64_t address) {
    return const_cast<PinnedRange*>(std::as_const(*this).range_at(address));
  }
  /// True if every byte is pinned.
  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t bytes) const;

 private:
  std::map<std::uint64_t, PinnedRange> ranges_;
};

}  // namespace simgpu
