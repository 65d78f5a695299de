// The invariants of residency, for tests and for TIDEPOOL_CHECK.

#include "allocator/residency.h"

namespace tidepool::runtime {
namespace {

// Null, or what is wrong with a block that is not in a transition.
const char* check_block(const Arena& arena, BlockId id) noexcept {
  const Block& block = arena.block(id);
  const BlockState state = block.load().state();
  const bool is_whole = block.backed() == block.span;
  switch (state) {
    case BlockState::kResident:
    case BlockState::kIncoming:
    case BlockState::kChosen:
    case BlockState::kOutgoing:
      if (!is_whole) return "a block on the device is not backed from end to end";
      if (!block.is_open()) return "a block on the device has memory that cannot be read and written";
      if (!block.host.empty()) return "a block on the device still has a host slot";
      break;
    case BlockState::kReserved:
      if (!block.host.empty()) return "a block that was never touched has a host slot";
      break;
    case BlockState::kParked:
      if (!is_whole) return "a parked block is not backed from end to end";
      if (!block.host.empty()) return "a parked block has a host slot";
      break;
    case BlockState::kOut:
      if (size_of(block.host) < block.requested()) return "a block that is out has too small a host slot";
      break;
    case BlockState::kFreed:
    case BlockState::kBinding:
    case BlockState::kStarting:
    case BlockState::kUnmapping:
      return nullptr;
  }
  for (const Extent& extent : block.extents) {
    if (!extent.mapped && state != BlockState::kParked) return "a block owns memory that is not mapped";
  }
  if (!block.base.address() || block.requested() > block.span)
    return "a block is smaller than what was asked for";
  if (arena.find(block.base.address()) != id) return "the chunk table does not name a block's first chunk";
  if (arena.find((block.base + block.span).address() - 1) != id)
    return "the chunk table does not name a block's last chunk";
  if (arena.find((block.base + block.span).address()) != kNoBlock) return "a block has no guard behind it";
  return nullptr;
}

}  // namespace

const char* Residency::check() noexcept {
  const TurnstileGuard turn(turnstile_);
  settle_incoming();
  return check_locked();
}

// TIDEPOOL_CHECK=cheap: what this turn was about, and sums that are kept anyway. Costs the same however many
// blocks there are.
const char* Residency::check_turn() noexcept {
  const FreeList::Held freed(freed_);
  const char* broken = nullptr;
  Bytes backed;
  arena_.for_each_allocated(wanted_, [&](BlockId id, const Block& block) {
    backed += block.backed();
    if (broken == nullptr) broken = check_block(arena_, id);
  });
  if (broken != nullptr) return broken;
  if (backed + freed_.bytes() + pool_.spare() > pool_.created())
    return "device memory does not add up: blocks of one launch + freed + spare > created";
  if (!pool_.kept_its_limit()) return "more device memory was created than allowed";
  if (slots_in_motion() > host_.used()) return "host memory does not add up: slots in motion > used";
  return nullptr;
}

// Of copies that are under way, and of copies that the device has not changed since.
Bytes Residency::slots_in_motion() const noexcept {
  Bytes slots = copies_.held();
  for (const Incoming& incoming : incoming_) slots += size_of(incoming.slot) + size_of(incoming.arrival.seen);
  for (const Eviction& eviction : evictions_) slots += size_of(eviction.slot);
  for (const Lost& lost : lost_) slots += size_of(lost.slot);
  return slots;
}

const char* Residency::check_locked() noexcept {
  const FreeList::Held freed(freed_);
  Bytes backed;
  Bytes slots;
  const char* broken = nullptr;
  arena_.for_each_allocated([&](BlockId id, const Block& block) {
    backed += block.backed();
    slots += size_of(block.host);
    if (broken == nullptr) broken = check_block(arena_, id);
  });
  if (broken != nullptr) return broken;
  freed.for_each([&](BlockId id) { backed += arena_.block(id).backed(); });
  slots += slots_in_motion();
  if (const char* wrong = copies_.check()) return wrong;
  if (backed + pool_.spare() != pool_.created())
    return "device memory does not add up: blocks + spare != created";
  if (!pool_.kept_its_limit()) return "more device memory was created than allowed";
  if (slots != host_.used()) return "host memory does not add up: slots != used";
  freed.for_each([&](BlockId id) {
    if (arena_.block(id).load().state() != BlockState::kFreed)
      broken = "a block on the free list is not free";
  });
  return broken;
}

}  // namespace tidepool::runtime
