#pragma once

#include <bitset>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/arena.h"
#include "allocator/residency.h"

namespace tidepool::runtime {

/// Small allocations: they share slabs of one chunk that stay on the device. They are half of all allocations
/// of a training job and under one per cent of its bytes, so moving them would cost more than it frees.
///
/// Thread-safe. allocate() may take the slow path for a new slab.
class SlabHeap {
 public:
  static constexpr Bytes kUnit{512};
  static constexpr Bytes kLargest = MiB(1);

  SlabHeap(Arena& arena, Residency& residency) noexcept : arena_(arena), residency_(residency) {}

  /// `size` in 1 … kLargest; aligned to kUnit.
  DeviceResult<DevicePtr> allocate(Bytes size) noexcept;
  /// All work on it has been waited for. kInvalidValue: not the start of a live allocation.
  Status free(BlockId slab, DevicePtr at) noexcept;
  /// Start and size of the live allocation that holds the address; a zero size when there is none.
  struct Range {
    DevicePtr base;
    Bytes size;
  };
  Range describe(BlockId slab, DevicePtr at) noexcept;
  /// Bytes of slabs (whole chunks).
  [[nodiscard]] Bytes held() const noexcept;

 private:
  static constexpr std::size_t kUnits = Arena::kChunk.count() / kUnit.count();
  struct Slab {
    BlockId id = kNoBlock;
    std::bitset<kUnits> taken;
    std::unordered_map<std::size_t, Bytes> live;  // first unit -> bytes asked for
  };

  static std::size_t units_of(Bytes size) noexcept { return size.round_up(kUnit) / kUnit; }
  static std::size_t find_gap(const Slab& slab, std::size_t units) noexcept;
  DeviceResult<DevicePtr> place(Slab& slab, std::size_t first, Bytes size) noexcept;
  Slab* find(BlockId id) noexcept;

  Arena& arena_;
  Residency& residency_;
  mutable std::mutex lock_;
  std::vector<Slab> slabs_;
};

}  // namespace tidepool::runtime
