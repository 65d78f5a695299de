#include "allocator/slab_map.h"

#include <bit>

namespace tidepool::runtime {

SlabMap::SlabMap() noexcept {
  set_free(kOrders - 1, 0, true);
}

std::size_t SlabMap::order_of(Bytes size) noexcept {
  const std::uint64_t units = size.round_up(kUnit) / kUnit;
  return static_cast<std::size_t>(std::bit_width(units - 1));
}

std::size_t SlabMap::room() const noexcept {
  return static_cast<std::size_t>(std::bit_width(free_orders_));
}

bool SlabMap::is_free(std::size_t order, std::size_t index) const noexcept {
  return (free_[order][index / kWordBits] >> (index % kWordBits) & 1) != 0;
}

void SlabMap::set_free(std::size_t order, std::size_t index, bool free) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (index % kWordBits);
  std::uint64_t& word = free_[order][index / kWordBits];
  word = free ? word | bit : word & ~bit;
  free_count_[order] = static_cast<std::uint16_t>(free_count_[order] + (free ? 1 : -1));
  const std::uint32_t mine = std::uint32_t{1} << order;
  free_orders_ = free_count_[order] != 0 ? free_orders_ | mine : free_orders_ & ~mine;
}

std::size_t SlabMap::first_free(std::size_t order) const noexcept {
  for (std::size_t word = 0;; ++word) {
    if (free_[order][word] != 0) {
      return word * kWordBits + static_cast<std::size_t>(std::countr_zero(free_[order][word]));
    }
  }
}

std::size_t SlabMap::take(Bytes size, std::uint8_t tag) noexcept {
  const std::size_t wanted = order_of(size);
  const std::uint32_t fitting = free_orders_ >> wanted << wanted;
  if (fitting == 0) return kNone;
  auto order = static_cast<std::size_t>(std::countr_zero(fitting));
  std::size_t index = first_free(order);
  set_free(order, index, false);
  for (; order > wanted; --order) {
    index *= 2;
    set_free(order - 1, index + 1, true);
  }
  const std::size_t unit = index << wanted;
  size_[unit] = static_cast<std::uint32_t>(size.count()) | std::uint32_t{tag} << kTagShift;
  ++taken_;
  return unit;
}

bool SlabMap::give(std::size_t unit) noexcept {
  if (!give_later(unit)) return false;
  give_now(unit);
  return true;
}

bool SlabMap::give_later(std::size_t unit) noexcept {
  if (unit >= kUnits || size_[unit] == 0 || (size_[unit] & kLater) != 0) return false;
  size_[unit] |= kLater;
  return true;
}

void SlabMap::give_now(std::size_t unit) noexcept {
  std::size_t order = order_of(Bytes(size_[unit] & kSizeMask));
  std::size_t index = unit >> order;
  for (; order + 1 < kOrders && is_free(order, index ^ 1); ++order) {
    set_free(order, index ^ 1, false);
    index /= 2;
  }
  set_free(order, index, true);
  size_[unit] = 0;
  --taken_;
}

SlabMap::Place SlabMap::find(std::size_t unit) const noexcept {
  // A place of order k starts at a multiple of 2^k: look at each start that could hold the unit.
  for (std::size_t order = 0; order < kOrders; ++order) {
    const std::size_t start = unit >> order << order;
    if (size_[start] == 0) continue;
    const Bytes size(size_[start] & kSizeMask);
    if (order_of(size) < order || (size_[start] & kLater) != 0) return {kNone, Bytes()};
    return {start, size, static_cast<std::uint8_t>(size_[start] >> kTagShift)};
  }
  return {kNone, Bytes()};
}

}  // namespace tidepool::runtime
