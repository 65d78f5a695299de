#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/arena.h"

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
  /// First unit of a free place for `size` bytes, now taken; kNone if there is none. `tag` (below 128) is
  /// kept with it.
  std::size_t take(Bytes size, std::uint8_t tag = 0) noexcept;
  /// False if no live place starts at the unit.
  bool give(std::size_t unit) noexcept;
  /// give() in two steps, for a place that work may still use: after the first it is no live place any more,
  /// after the second (which must follow) it can be taken.
  bool give_later(std::size_t unit) noexcept;
  void give_now(std::size_t unit) noexcept;
  /// The live place that holds the unit: its first unit and the bytes asked for, or kNone and zero.
  struct Place {
    std::size_t unit;
    Bytes size;
    std::uint8_t tag = 0;
  };
  [[nodiscard]] Place find(std::size_t unit) const noexcept;
  /// No place is taken.
  [[nodiscard]] bool empty() const noexcept { return taken_ == 0; }

  /// The order of the place for so many bytes: 2^order units.
  static std::size_t order_of(Bytes size) noexcept;
  /// One more than the order of the largest free place; 0: all is taken.
  [[nodiscard]] std::size_t room() const noexcept;

 private:
  static constexpr std::size_t kWordBits = 64;
  // What size_ holds besides the size: the tag, and "given, but not yet free".
  static constexpr int kTagShift = 24;
  static constexpr std::uint32_t kSizeMask = (std::uint32_t{1} << kTagShift) - 1;
  static constexpr std::uint32_t kLater = std::uint32_t{1} << 31;
  // Bits of one order: bit i is set when the place that starts at unit i << order is free as a whole.
  using Bits = std::array<std::uint64_t, kUnits / kWordBits>;

  [[nodiscard]] std::size_t first_free(std::size_t order) const noexcept;
  void set_free(std::size_t order, std::size_t index, bool free) noexcept;
  [[nodiscard]] bool is_free(std::size_t order, std::size_t index) const noexcept;

  std::array<Bits, kOrders> free_{};
  std::array<std::uint16_t, kOrders> free_count_{};
  std::uint32_t free_orders_ = 0;             // bit k: some place of order k is free
  std::array<std::uint32_t, kUnits> size_{};  // bytes asked for, at the first unit of a taken place
  std::size_t taken_ = 0;
};

}  // namespace tidepool::runtime
