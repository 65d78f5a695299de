// The part of Residency that takes blocks back from the program and gives them out again.

#include <algorithm>

#include "allocator/backoff.h"
#include "allocator/residency.h"

namespace tidepool::runtime {

Status Residency::free(BlockId id, Use freed_by) noexcept {
  return free_by(id, [&](const Copies&, Use* last) {
    *last = freed_by;
    return kOk;
  });
}

// A copy that is still on its way would meet the memory's next life: the stream waits for it before it frees.
// Everything else that touched the block the program has ordered before.
Status Residency::free_in(BlockId id, Stream& stream) noexcept {
  return free_by(id, [&](const Copies& copies, Use* last) {
    const Status status = order_after(&stream, copies);
    if (status.ok()) *last = stream.draw();
    return status;
  });
}

// `order(copies, last)` sees to it that `last` comes after the copies that are under way in this state of the
// block; where the state has changed meanwhile it is asked again.
template <class Order>
Status Residency::free_by(BlockId id, Order&& order) noexcept {
  Block& block = arena_.block(id);
  for (Backoff backoff;;) {
    const StateWord word = block.load();
    Copies copies;
    switch (word.state()) {
      case BlockState::kFreed:
        return kInvalidValue;
      case BlockState::kBinding:
      case BlockState::kStarting:
      case BlockState::kUnmapping:
        backoff.pause();  // a transition in the slow path; it ends with its driver calls
        continue;
      case BlockState::kIncoming:
        copies.incoming = Use::from_raw(block.incoming.load(std::memory_order_acquire));
        break;
      case BlockState::kOutgoing:
        copies.note_outgoing(Use::from_raw(block.outgoing.load(std::memory_order_acquire)));
        break;
      default:
        break;
    }
    Use last;
    if (const Status status = order(copies, &last); !status.ok()) return status;
    // With the device waited for, only such a copy can still be under way.
    const Use copy = copies.incoming ? copies.incoming : copies.outgoing[0];
    if (!last) last = copy;
    const std::uint16_t stream = last == copy ? std::uint16_t{0} : last.stream();
    if (freed_.add(id, stream, [&] { return move_to_freed(block, word, last); })) return kOk;
  }
}

// Under the free list's lock. A free that fails leaves the block kept: something may name it still.
bool Residency::move_to_freed(Block& block, StateWord word, Use last) noexcept {
  if (!block.move(word, BlockState::kFreed)) return false;
  uncount(block);
  release_kept(block);
  // Host slots of blocks that are being copied belong to the list of incoming copies, or to the eviction,
  // which notices.
  if (word.state() != BlockState::kIncoming && word.state() != BlockState::kOutgoing) {
    host_.release(block.host);
    block.host.clear();
  }
  block.life.fetch_add(1, std::memory_order_relaxed);
  block.set_only_use(last);
  return true;
}

Status Residency::wait_host(Use use, Metric cause) noexcept {
  const WaitClock clock(cause);
  return streams_.wait_host(use);
}

Status Residency::wait_for_uses(const Block& block) noexcept {
  const WaitClock clock(Metric::wait_work_ns_total);
  if (block.used_widely.load(std::memory_order_acquire)) return streams_.wait_device();
  Status status = kOk;
  for (const auto& use : block.uses) {
    if (status.ok()) status = streams_.wait_host(Use::from_raw(use.load(std::memory_order_acquire)));
  }
  return status;
}

BlockId Residency::take_freed(Bytes requested, Bytes span, Stream* stream) noexcept {
  const auto settle = [&](Block& block) {
    for (auto& use : block.uses) {
      if (streams_.passed(Use::from_raw(use.load(std::memory_order_relaxed))))
        use.store(0, std::memory_order_relaxed);
    }
    block.set_requested(requested);
    block.touched.store(false, std::memory_order_relaxed);
    const BlockState with_memory = block.is_open() ? BlockState::kResident : BlockState::kParked;
    block.settle(block.extents.empty() ? BlockState::kReserved : with_memory);
  };
  const std::uint16_t order = stream != nullptr ? stream->index() : std::uint16_t{0};
  BlockId id = freed_.take(span, order, settle);
  // Where memory is short, waiting on the device for what another stream has freed is better than moving
  // blocks.
  if (id != kNoBlock || stream == nullptr || pool_.available() >= span) return id;
  if (only_idle_may_leave() || reuse_must_not_wait.load(std::memory_order_acquire)) return kNoBlock;
  id = freed_.take_waiting(span, order, settle);
  if (id == kNoBlock || order_after_last_life(*stream, arena_.block(id))) return id;
  undo_take(id);
  return kNoBlock;
}

bool Residency::order_after_last_life(Stream& stream, const Block& block) noexcept {
  return std::all_of(block.uses.begin(), block.uses.end(), [&](const auto& use) {
    return streams_.order(stream, Use::from_raw(use.load(std::memory_order_acquire))).ok();
  });
}

// Nobody has been told of the block, but the owner of the slow path may have begun to take it off the device.
// Its uses stay those of its last life.
void Residency::undo_take(BlockId id) noexcept {
  Block& block = arena_.block(id);
  for (Backoff backoff;;) {
    const StateWord word = block.load();
    const BlockState state = word.state();
    if (state == BlockState::kBinding || state == BlockState::kStarting || state == BlockState::kUnmapping) {
      backoff.pause();
    } else if (freed_.undo_take(id, [&] { return block.move(word, BlockState::kFreed); })) {
      return;
    }
  }
}

DeviceResult<BlockId> Residency::new_block(Bytes requested, Bytes span) noexcept {
  DeviceResult<BlockId> id = arena_.add(requested, span);
  if (!id.ok() && freed_.return_addresses()) id = arena_.add(requested, span);
  if (id.ok()) return id;
  // Freed pairs have addresses too, and memory, which is needed less now.
  const TurnstileGuard turn(turnstile_);
  wanted_.clear();
  begin_turn();
  sweep_evictions();
  while (!id.ok() && (strip_freed() || wait_for_freed())) {
    (void)freed_.return_addresses();
    id = arena_.add(requested, span);
  }
  return id;
}

void Residency::count(Block& block) noexcept {
  if (!block.counted.exchange(true)) census_.add(block.span);
}
void Residency::uncount(Block& block) noexcept {
  if (block.counted.exchange(false)) census_.remove(block.span);
}

}  // namespace tidepool::runtime
