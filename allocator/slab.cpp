#include "allocator/slab.h"

#include <algorithm>

namespace tidepool::runtime {

std::size_t SlabHeap::find_gap(const Slab& slab, std::size_t units) noexcept {
  std::size_t run = 0;
  for (std::size_t i = 0; i < kUnits; ++i) {
    run = slab.taken[i] ? 0 : run + 1;
    if (run == units) return i + 1 - units;
  }
  return kUnits;
}

DeviceResult<DevicePtr> SlabHeap::place(Slab& slab, std::size_t first, Bytes size) noexcept {
  for (std::size_t i = 0; i < units_of(size); ++i) slab.taken.set(first + i);
  slab.live.emplace(first, size);
  return arena_.block(slab.id).base + kUnit * first;
}

DeviceResult<DevicePtr> SlabHeap::allocate(Bytes size) noexcept {
  const std::lock_guard guard(lock_);
  for (Slab& slab : slabs_) {
    const std::size_t first = find_gap(slab, units_of(size));
    if (first != kUnits) return place(slab, first, size);
  }
  const DeviceResult<BlockId> id = arena_.add(Arena::kChunk, Arena::kChunk);
  if (!id.ok()) return Err{id.error()};
  arena_.block(*id).is_slab = true;
  if (const Status status = residency_.keep({&*id, 1}, "small allocations"); !status.ok()) {
    (void)residency_.free(*id);
    return Err{status};
  }
  slabs_.emplace_back();
  slabs_.back().id = *id;
  return place(slabs_.back(), 0, size);
}

SlabHeap::Slab* SlabHeap::find(BlockId id) noexcept {
  const auto slab = std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& s) { return s.id == id; });
  return slab == slabs_.end() ? nullptr : &*slab;
}

Status SlabHeap::free(BlockId id, DevicePtr at) noexcept {
  const std::lock_guard guard(lock_);
  Slab* slab = find(id);
  if (slab == nullptr) return kInvalidValue;
  const std::uint64_t offset = at.address() - arena_.block(id).base.address();
  const auto live = slab->live.find(offset / kUnit.count());
  if (live == slab->live.end() || offset % kUnit.count() != 0) return kInvalidValue;
  for (std::size_t i = 0; i < units_of(live->second); ++i) slab->taken.reset(live->first + i);
  slab->live.erase(live);
  if (!slab->live.empty()) return kOk;
  // One empty slab is kept: a program that allocates and frees one small block must not map each time.
  const auto empty =
      std::count_if(slabs_.begin(), slabs_.end(), [](const Slab& s) { return s.live.empty(); });
  if (empty < 2) return kOk;
  slabs_.erase(slabs_.begin() + (slab - slabs_.data()));
  return residency_.free(id);
}

SlabHeap::Range SlabHeap::describe(BlockId id, DevicePtr at) noexcept {
  const std::lock_guard guard(lock_);
  Slab* slab = find(id);
  if (slab == nullptr) return {};
  const DevicePtr base = arena_.block(id).base;
  const std::uint64_t offset = at.address() - base.address();
  for (const auto& [first, size] : slab->live) {
    const std::uint64_t start = first * kUnit.count();
    if (offset >= start && offset - start < size.count()) return {base + Bytes(start), size};
  }
  return {};
}

Bytes SlabHeap::held() const noexcept {
  const std::lock_guard guard(lock_);
  return Arena::kChunk * slabs_.size();
}

}  // namespace tidepool::runtime
