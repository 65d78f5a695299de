#include "allocator/slab.h"

#include <algorithm>
#include <bit>
#include <new>

namespace tidepool::runtime {

SlabMap::SlabMap() noexcept {
  set_free(kOrders - 1, 0, true);
}

std::size_t SlabMap::order_of(Bytes size) noexcept {
  const std::uint64_t units = size.round_up(kUnit) / kUnit;
  return static_cast<std::size_t>(std::bit_width(units - 1));
}

bool SlabMap::is_free(std::size_t order, std::size_t index) const noexcept {
  return (free_[order][index / kWordBits] >> (index % kWordBits) & 1) != 0;
}

void SlabMap::set_free(std::size_t order, std::size_t index, bool free) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (index % kWordBits);
  std::uint64_t& word = free_[order][index / kWordBits];
  word = free ? word | bit : word & ~bit;
  free_count_[order] = static_cast<std::uint16_t>(free_count_[order] + (free ? 1 : -1));
}

std::size_t SlabMap::first_free(std::size_t order) const noexcept {
  for (std::size_t word = 0;; ++word) {
    if (free_[order][word] != 0) {
      return word * kWordBits + static_cast<std::size_t>(std::countr_zero(free_[order][word]));
    }
  }
}

std::size_t SlabMap::take(Bytes size) noexcept {
  const std::size_t wanted = order_of(size);
  std::size_t order = wanted;
  while (order < kOrders && free_count_[order] == 0) ++order;
  if (order == kOrders) return kNone;
  std::size_t index = first_free(order);
  set_free(order, index, false);
  for (; order > wanted; --order) {
    index *= 2;
    set_free(order - 1, index + 1, true);
  }
  const std::size_t unit = index << wanted;
  size_[unit] = static_cast<std::uint32_t>(size.count());
  ++live_;
  return unit;
}

bool SlabMap::give(std::size_t unit) noexcept {
  if (unit >= kUnits || size_[unit] == 0) return false;
  std::size_t order = order_of(Bytes(size_[unit]));
  std::size_t index = unit >> order;
  for (; order + 1 < kOrders && is_free(order, index ^ 1); ++order) {
    set_free(order, index ^ 1, false);
    index /= 2;
  }
  set_free(order, index, true);
  size_[unit] = 0;
  --live_;
  return true;
}

SlabMap::Place SlabMap::find(std::size_t unit) const noexcept {
  // A place of order k starts at a multiple of 2^k: look at each start that could hold the unit.
  for (std::size_t order = 0; order < kOrders; ++order) {
    const std::size_t start = unit >> order << order;
    if (size_[start] == 0) continue;
    const Bytes size(size_[start]);
    if (order_of(size) < order) return {kNone, Bytes()};
    return {start, size};
  }
  return {kNone, Bytes()};
}

SlabHeap::~SlabHeap() {
  for (const Slab& slab : slabs_) delete slab.map;
}

DeviceResult<DevicePtr> SlabHeap::allocate(Bytes size) noexcept {
  const std::lock_guard guard(lock_);
  for (std::size_t tried = 0; tried < slabs_.size(); ++tried) {
    const std::size_t i = (newest_ + tried) % slabs_.size();
    const std::size_t unit = slabs_[i].map->take(size);
    if (unit == SlabMap::kNone) continue;
    newest_ = i;
    return slabs_[i].base + SlabMap::kUnit * unit;
  }
  if (const Status status = add_slab(size); !status.ok()) return Err{status};
  newest_ = slabs_.size() - 1;
  return slabs_.back().base + SlabMap::kUnit * slabs_.back().map->take(size);
}

Status SlabHeap::add_slab(Bytes size) noexcept {
  if (!residency_.may_keep(Arena::kChunk)) return residency_.refuse_to_keep(size);
  auto* map = new (std::nothrow) SlabMap;
  if (map == nullptr) return residency_.refuse(Arena::kChunk);
  const DeviceResult<BlockId> id = arena_.add(Arena::kChunk, Arena::kChunk, true);
  if (!id.ok()) {
    delete map;
    return residency_.refuse(Arena::kChunk);
  }
  if (const Status status = residency_.keep({&*id, 1}, "small allocations"); !status.ok()) {
    (void)residency_.free(*id);
    delete map;
    return status;
  }
  slabs_.push_back({*id, arena_.block(*id).base, map});
  held_bytes_.fetch_add(Arena::kChunk.count(), std::memory_order_relaxed);
  return kOk;
}

SlabHeap::Slab* SlabHeap::find(BlockId id) noexcept {
  const auto slab = std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& s) { return s.id == id; });
  return slab == slabs_.end() ? nullptr : &*slab;
}

Status SlabHeap::free(BlockId id, DevicePtr at) noexcept {
  const std::lock_guard guard(lock_);
  Slab* slab = find(id);
  if (slab == nullptr) return kInvalidValue;
  const std::uint64_t offset = at.address() - slab->base.address();
  if (offset % SlabMap::kUnit.count() != 0 || !slab->map->give(offset / SlabMap::kUnit.count())) {
    return kInvalidValue;
  }
  if (!slab->map->empty()) return kOk;
  // One empty slab is kept: a program that allocates and frees one small block must not map each time.
  const auto empty =
      std::count_if(slabs_.begin(), slabs_.end(), [](const Slab& s) { return s.map->empty(); });
  if (empty < 2) return kOk;
  delete slab->map;
  slabs_.erase(slabs_.begin() + (slab - slabs_.data()));
  newest_ = 0;
  held_bytes_.fetch_sub(Arena::kChunk.count(), std::memory_order_relaxed);
  return residency_.free(id);
}

SlabHeap::Range SlabHeap::describe(BlockId id, DevicePtr at) noexcept {
  const std::lock_guard guard(lock_);
  const Slab* slab = find(id);
  if (slab == nullptr) return {};
  const std::uint64_t offset = at.address() - slab->base.address();
  const SlabMap::Place place = slab->map->find(offset / SlabMap::kUnit.count());
  const std::uint64_t start = place.unit * SlabMap::kUnit.count();
  if (place.size == Bytes() || offset - start >= place.size.count()) return {};
  return {slab->base + Bytes(start), place.size};
}

}  // namespace tidepool::runtime
