#include "allocator/slab.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "allocator/epoch.h"

namespace tidepool::runtime {

template <class Visit>
void SlabHeap::for_each_domain(Visit&& visit) noexcept {
  for (Domain& domain : of_threads_) visit(domain);
  for (std::uint32_t i = 0; i <= highest_stream_.load(std::memory_order_acquire); ++i) {
    if (Domain* domain = of_streams_[i].load(std::memory_order_acquire)) visit(*domain);
  }
}

SlabHeap::~SlabHeap() {
  for_each_domain([](Domain& domain) {
    for (Slab* slab : domain.by_room) {
      while (slab != nullptr) delete std::exchange(slab, slab->next);
    }
  });
  for (auto& domain : of_streams_) delete domain.load(std::memory_order_relaxed);
  for (Slab* slab : unused_) delete slab;
}

SlabHeap::Slab* SlabHeap::find(BlockId id, std::unique_lock<std::mutex>& guard) noexcept {
  auto* slab = static_cast<Slab*>(arena_.block(id).slab.load(std::memory_order_acquire));
  if (slab == nullptr) return nullptr;
  for (;;) {
    Domain* const owner = slab->owner.load(std::memory_order_acquire);
    guard = std::unique_lock(owner->lock);
    if (slab->owner.load(std::memory_order_acquire) == owner) break;  // else it serves elsewhere by now
  }
  return slab->id == id ? slab : nullptr;
}

SlabHeap::Slab* SlabHeap::unused_slab(Domain& domain) noexcept {
  Slab* slab = nullptr;
  {
    const std::lock_guard guard(unused_lock_);
    if (!unused_.empty()) {
      slab = unused_.back();
      unused_.pop_back();
    }
  }
  if (slab == nullptr) {
    slab = new (std::nothrow) Slab;
    if (slab != nullptr) slab->owner.store(&domain, std::memory_order_release);
    return slab;
  }
  // Who looked for the block that it was may still be at it, with the former owner's lock.
  const std::lock_guard guard(slab->owner.load(std::memory_order_relaxed)->lock);
  slab->owner.store(&domain, std::memory_order_release);
  return slab;
}

// A stream's domain stays when the stream goes: its number serves again only once all its work has passed.
SlabHeap::Domain* SlabHeap::domain_for(std::uint16_t stream) noexcept {
  if (stream == 0) return &of_threads_[EpochRegistry::instance().my_number() % kThreadDomains];
  std::atomic<Domain*>& place = of_streams_[stream];
  if (Domain* domain = place.load(std::memory_order_acquire)) return domain;
  auto* fresh = new (std::nothrow) Domain;
  if (fresh == nullptr) return &of_threads_[0];
  fresh->stream = stream;
  Domain* known = nullptr;
  if (!place.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) {
    delete fresh;
    return known;
  }
  std::uint32_t seen = highest_stream_.load(std::memory_order_relaxed);
  while (seen < stream && !highest_stream_.compare_exchange_weak(seen, stream, std::memory_order_acq_rel)) {
  }
  return fresh;
}

void SlabHeap::insert(Domain& domain, Slab& slab) noexcept {
  slab.room = slab.map.room();
  Slab*& first = domain.by_room[slab.room];
  slab.before = nullptr;
  slab.next = first;
  if (first != nullptr) first->before = &slab;
  first = &slab;
  domain.rooms |= std::uint32_t{1} << slab.room;
}

void SlabHeap::remove(Domain& domain, Slab& slab) noexcept {
  Slab*& first = domain.by_room[slab.room];
  (slab.before != nullptr ? slab.before->next : first) = slab.next;
  if (slab.next != nullptr) slab.next->before = slab.before;
  if (first == nullptr) domain.rooms &= ~(std::uint32_t{1} << slab.room);
}

DevicePtr SlabHeap::take(Domain& domain, Slab& slab, Wanted wanted) noexcept {
  if (slab.map.empty()) {
    --domain.empty_slabs;
    empty_slabs_.fetch_sub(1, std::memory_order_relaxed);
  }
  const std::size_t unit = slab.map.take(wanted.size, wanted.tag);
  if (slab.map.room() != slab.room) {
    remove(domain, slab);
    insert(domain, slab);
  }
  return slab.base + SlabMap::kUnit * unit;
}

// The fullest slab that has room, so that others can become empty. kOutOfMemory: none has.
DeviceResult<DevicePtr> SlabHeap::take_any(Domain& domain, Wanted wanted) noexcept {
  const std::size_t needed = SlabMap::order_of(wanted.size) + 1;
  const std::uint32_t fitting = domain.rooms >> needed << needed;
  if (fitting == 0) return Err{kOutOfMemory};
  return take(domain, *domain.by_room[static_cast<std::size_t>(std::countr_zero(fitting))], wanted);
}

DeviceResult<DevicePtr> SlabHeap::take_here(Domain& domain, Wanted wanted) noexcept {
  const std::lock_guard guard(domain.lock);
  const DeviceResult<DevicePtr> at = take_any(domain, wanted);
  return at.ok() || !settle_pending(domain) ? at : take_any(domain, wanted);
}

// Whoever needs a slab may wait for the device. Frees and questions about pointers do not wait with it, nor
// do allocations that find room.
DeviceResult<DevicePtr> SlabHeap::allocate(Bytes size, std::uint16_t stream, std::uint8_t tag) noexcept {
  const Wanted wanted{size, tag};
  Domain& domain = *domain_for(stream);
  DeviceResult<DevicePtr> at = take_here(domain, wanted);
  streams_.make_marks();
  if (at.ok()) return at;
  {
    const std::lock_guard growing(domain.growth);
    at = take_here(domain, wanted);  // another thread may have added a slab meanwhile
    if (at.ok()) return at;
    // Slabs of streams that have little in them would take the budget from what moves.
    if (held() >= most_unshared()) at = take_of_others(&domain, wanted);
    if (!at.ok()) {
      Residency::Promise room(residency_, Arena::kChunk);
      if (room.holds()) return take_new(domain, wanted, room);
    }
  }
  // Nothing more may stay on the device; what others keep for themselves may have room.
  if (!at.ok()) at = take_of_others(&domain, wanted);
  streams_.make_marks();
  if (!at.ok()) return Err{residency_.refuse_to_keep(size)};
  shares_.store(true, std::memory_order_relaxed);
  return at;
}

Bytes SlabHeap::most_unshared() const noexcept {
  return Bytes(residency_.limit().count() / kUnsharedPart);
}

// With the limit that this is added to, up to kUnsharedPart of it is slabs which are shared now.
Bytes SlabHeap::could_grow_by(Bytes limit) const noexcept {
  if (!shares_.load(std::memory_order_relaxed)) return {};
  const Bytes others = limit - std::min(limit, held()) + Arena::kChunk;
  const Bytes roomy(others.count() + others.count() / (kUnsharedPart - 1));
  return roomy - std::min(roomy, limit);
}

DeviceResult<DevicePtr> SlabHeap::take_of_others(const Domain* mine, Wanted wanted) noexcept {
  const std::size_t needed = SlabMap::order_of(wanted.size) + 1;
  DeviceResult<DevicePtr> found = Err{kOutOfMemory};
  for_each_domain([&](Domain& domain) {
    if (found.ok() || &domain == mine) return;
    const std::lock_guard guard(domain.lock);
    (void)settle_pending(domain);
    for (std::size_t room = needed; room < domain.by_room.size() && !found.ok(); ++room) {
      for (Slab* slab = domain.by_room[room]; slab != nullptr; slab = slab->next) {
        if (!streams_.passed_or_wanted(slab->last_freed)) continue;
        found = take(domain, *slab, wanted);
        break;
      }
    }
  });
  return found;
}

DeviceResult<DevicePtr> SlabHeap::take_new(Domain& domain, Wanted wanted, Residency::Promise& room) noexcept {
  Slab* const slab = unused_slab(domain);
  if (slab == nullptr) return Err{residency_.refuse(Arena::kChunk)};
  Status status = kOk;
  DeviceResult<BlockId> id = residency_.take_freed(Arena::kChunk, Arena::kChunk, streams_.at(domain.stream));
  if (*id == kNoBlock) id = residency_.new_block(Arena::kChunk, Arena::kChunk);
  // Work of the domain's own stream that may still be on its way to memory it has freed.
  Use pending;
  if (!id.ok()) {
    status = residency_.refuse_addresses(Arena::kChunk);
  } else {
    pending = arena_.block(*id).left_use();
    status = residency_.keep({&*id, 1}, "small allocations", &room);
    if (!status.ok()) (void)residency_.free(*id, pending);
  }
  if (!status.ok()) {
    const std::lock_guard guard(unused_lock_);
    unused_.push_back(slab);
    return Err{status};
  }
  const std::lock_guard guard(domain.lock);
  slab->id = *id;
  slab->base = arena_.block(*id).base;
  slab->last_freed = pending;
  arena_.block(*id).slab.store(slab, std::memory_order_release);
  insert(domain, *slab);
  ++domain.empty_slabs;
  empty_slabs_.fetch_add(1, std::memory_order_relaxed);
  held_bytes_.fetch_add(Arena::kChunk.count(), std::memory_order_relaxed);
  // Meanwhile another may have come to have room; then this one stays, empty, for the next.
  return take_any(domain, wanted);
}

// Domain's lock held. The slab may be gone afterwards.
void SlabHeap::give(Slab& slab, std::size_t unit) noexcept {
  Domain& domain = *slab.owner.load(std::memory_order_relaxed);
  slab.map.give_now(unit);
  if (slab.map.room() != slab.room) {
    remove(domain, slab);
    insert(domain, slab);
  }
  if (slab.map.empty()) {
    ++domain.empty_slabs;
    empty_slabs_.fetch_add(1, std::memory_order_relaxed);
    drop_if_spare(domain, slab);
  }
}

// One empty slab is kept, in a few domains: a program that allocates and frees one small block must not map
// each time.
void SlabHeap::drop_if_spare(Domain& domain, Slab& slab) noexcept {
  if (domain.empty_slabs < 2 && empty_slabs_.load(std::memory_order_relaxed) <= kMostEmpty) return;
  --domain.empty_slabs;
  empty_slabs_.fetch_sub(1, std::memory_order_relaxed);
  remove(domain, slab);
  held_bytes_.fetch_sub(Arena::kChunk.count(), std::memory_order_relaxed);
  const BlockId id = std::exchange(slab.id, kNoBlock);
  arena_.block(id).slab.store(nullptr, std::memory_order_release);
  (void)residency_.free(id, slab.last_freed);
  const std::lock_guard guard(unused_lock_);
  unused_.push_back(&slab);
}

// Frees whose time has come, oldest first. True if there were any.
bool SlabHeap::settle_pending(Domain& domain) noexcept {
  bool any = false;
  while (!domain.pending.empty() && streams_.passed_or_wanted(domain.pending.front().freed_by)) {
    const Pending done = domain.pending.front();
    domain.pending.pop_front();
    give(*done.slab, done.unit);
    any = true;
  }
  return any;
}

Status SlabHeap::free(BlockId id, DevicePtr at, Use freed_by) noexcept {
  std::unique_lock<std::mutex> guard;
  Slab* const slab = find(id, guard);
  if (slab == nullptr) return kInvalidValue;
  Domain& domain = *slab->owner.load(std::memory_order_relaxed);
  const std::uint64_t offset = at.address() - slab->base.address();
  const std::size_t unit = offset / SlabMap::kUnit.count();
  if (offset % SlabMap::kUnit.count() != 0 || !slab->map.give_later(unit)) return kInvalidValue;
  const bool own = !freed_by || freed_by.stream() == domain.stream;
  if (own) {
    if (freed_by) slab->last_freed = freed_by;
    give(*slab, unit);
  } else {
    domain.pending.push_back({slab, static_cast<std::uint16_t>(unit), freed_by});
    // Some of what waits may have come to its end; a domain that only frees would never look.
    if (domain.pending.size() % 64 == 0) (void)settle_pending(domain);
  }
  guard.unlock();
  streams_.make_marks();
  return kOk;
}

Allocation SlabHeap::describe(BlockId id, DevicePtr at) noexcept {
  std::unique_lock<std::mutex> guard;
  const Slab* const slab = find(id, guard);
  if (slab == nullptr) return {};
  const std::uint64_t offset = at.address() - slab->base.address();
  const SlabMap::Place place = slab->map.find(offset / SlabMap::kUnit.count());
  const std::uint64_t start = place.unit * SlabMap::kUnit.count();
  if (place.size == Bytes() || offset - start >= place.size.count()) return {};
  return {slab->base + Bytes(start), place.size, place.tag};
}

}  // namespace tidepool::runtime
