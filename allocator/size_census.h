#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "allocator/support/units.h"

namespace tidepool::runtime {

/// How many blocks there are of each size, in classes an eighth of a power of two wide: so that the largest
/// is known, up to an eighth too large, without a list of them. Lock-free, hook-safe.
class SizeCensus {
 public:
  void add(Bytes size) noexcept { counts_[class_of(size)].fetch_add(1, std::memory_order_relaxed); }
  void remove(Bytes size) noexcept { counts_[class_of(size)].fetch_sub(1, std::memory_order_relaxed); }
  /// The upper end of the highest class that has a block; zero if there is none.
  [[nodiscard]] Bytes largest() const noexcept;

 private:
  static constexpr std::size_t kSteps = 8;
  static constexpr std::size_t kClasses = 64 * kSteps;

  // The power of two below the size, and the three bits behind it. Ends of classes belong to the class below,
  // so that a power of two is its own upper end.
  static constexpr std::size_t class_of(Bytes size) noexcept {
    const std::uint64_t below = size.count() - 1;
    if (below < kSteps) return static_cast<std::size_t>(below);
    const auto power = static_cast<std::size_t>(std::bit_width(below)) - 1;
    return power * kSteps + (below >> (power - 3) & (kSteps - 1));
  }

  std::array<std::atomic<std::uint32_t>, kClasses> counts_{};
};

}  // namespace tidepool::runtime
