#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/intervals.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu {

/// Device memory is handed out in frames of this many bytes; also the VMM granularity.
inline constexpr std::uint64_t kFrameBytes = std::uint64_t{2} << 20;

class PhysicalMemory;

/// Device memory that cuMemCreate or a plain allocation holds. It lives while it has a handle or a mapping.
struct Physical {
  PhysicalMemory* memory = nullptr;  ///< the device it is of
  std::uint64_t id =
      0;  ///< the program's handle; never used twice on any device, so that a stale one is found
  std::uint64_t size = 0;
  bool plain = false;          ///< belongs to a plain allocation: no handle of the program's
  std::uint32_t handles = 1;   ///< cuMemCreate plus cuMemRetainAllocationHandle, minus cuMemRelease
  std::uint32_t mappings = 0;  ///< addresses it is mapped at
  bool placed = false;         ///< has a place in the backing file: from its first mapping on
  std::uint64_t file_offset = 0;
  CUmemAllocationProp prop{};
};

/// The device's memory: a fixed number of frames, backed by one memory file, so that one frame can be mapped
/// at several addresses. Not thread-safe: the device lock protects it.
///
/// New memory never holds useful bytes: every frame is filled with a pattern made from the seed when it is
/// first mapped, recycled or not, so that a copy that was lost is seen.
class PhysicalMemory {
 public:
  PhysicalMemory(int ordinal, std::uint64_t capacity_bytes, std::uint64_t seed, DeviceUse* use);
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  /// False if the backing file could not be made.
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  /// Of the device whose memory it is.
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }

  /// Takes `size` bytes, a multiple of kFrameBytes. CUDA_ERROR_OUT_OF_MEMORY beyond the capacity.
  CUresult create(std::uint64_t size, bool plain, Physical** out);
  /// Gives one handle back.
  void drop_handle(Physical* physical);
  /// Counts one more mapping. The first one chooses the place in the file: at `preferred` where that is free,
  /// which lets the kernel merge neighbouring mappings, and fills the memory with the pattern.
  CUresult add_mapping(Physical* physical, std::uint64_t preferred);
  void drop_mapping(Physical* physical);

  /// Fills memory of the device that is mapped here with the pattern.
  void poison(void* address, std::uint64_t bytes) const;

 private:
  void maybe_free(Physical* physical);
  void release_place(const Physical& physical);
  bool poison_file(std::uint64_t offset, std::uint64_t bytes) const;

  int ordinal_;
  int fd_;
  DeviceUse& use_;
  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
  Intervals places_;    ///< file ranges in use
  Intervals recycled_;  ///< file ranges that are free but still hold pages of the host
  std::vector<std::uint64_t> pattern_;
};

}  // namespace simgpu
