#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/arena.h"
#include "allocator/residency.h"

namespace tidepool::runtime {

/// Places of one slab: a buddy system over units of 512 bytes, sizes are powers of two. Knows what was asked
/// for. Not thread-safe; no allocation.
class SlabMap {
 public:
  static constexpr Bytes kUnit{512};
  static constexpr std::size_t kUnits = Arena::kChunk.count() / kUnit.count();
  static constexpr std::size_t kOrders = 13;  // 1 … 4096 units
  static constexpr std::size_t kNone = kUnits;
  static_assert(std::size_t{1} << (kOrders - 1) == kUnits);

  SlabMap() noexcept;
  /// First unit of a free place for `size` bytes, now taken; kNone if there is none.
  std::size_t take(Bytes size) noexcept;
  /// False if no live place starts at the unit.
  bool give(std::size_t unit) noexcept;
  /// The live place that holds the unit: its first unit and the bytes asked for, or kNone and zero.
  struct Place {
    std::size_t unit;
    Bytes size;
  };
  [[nodiscard]] Place find(std::size_t unit) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return live_ == 0; }

 private:
  static constexpr std::size_t kWordBits = 64;
  // Bits of one order: bit i is set when the place that starts at unit i << order is free as a whole.
  using Bits = std::array<std::uint64_t, kUnits / kWordBits>;

  static std::size_t order_of(Bytes size) noexcept;
  [[nodiscard]] std::size_t first_free(std::size_t order) const noexcept;
  void set_free(std::size_t order, std::size_t index, bool free) noexcept;
  [[nodiscard]] bool is_free(std::size_t order, std::size_t index) const noexcept;

  std::array<Bits, kOrders> free_{};
  std::array<std::uint16_t, kOrders> free_count_{};
  std::array<std::uint32_t, kUnits> size_{};  // bytes asked for, at the first unit of a live place
  std::size_t live_ = 0;
};

/// Small allocations: they share slabs of one chunk that stay on the device. They are half of all allocations
/// of a training job and under one per cent of its bytes, so moving them would cost more than it frees.
///
/// Thread-safe. allocate() may take the slow path for a new slab.
class SlabHeap {
 public:
  static constexpr Bytes kLargest = MiB(1);

  SlabHeap(Arena& arena, Residency& residency) noexcept : arena_(arena), residency_(residency) {}
  ~SlabHeap();
  SlabHeap(const SlabHeap&) = delete;
  SlabHeap& operator=(const SlabHeap&) = delete;

  /// `size` in 1 … kLargest; aligned to 512 bytes.
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
  [[nodiscard]] Bytes held() const noexcept { return Bytes(held_bytes_.load(std::memory_order_relaxed)); }

 private:
  struct Slab {
    BlockId id;
    DevicePtr base;
    SlabMap* map;
  };

  Slab* find(BlockId id) noexcept;
  Status add_slab(Bytes size) noexcept;

  Arena& arena_;
  Residency& residency_;
  std::mutex lock_;
  std::vector<Slab> slabs_;
  std::size_t newest_ = 0;  // where the last allocation found its place
  std::atomic<std::uint64_t> held_bytes_{0};
};

}  // namespace tidepool::runtime
