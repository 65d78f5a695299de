// The part of Residency that takes blocks back from the program and gives them out again.

#include <sched.h>

#include "allocator/residency.h"

namespace tidepool::runtime {

Status Residency::free(BlockId id, Use freed_by) noexcept {
  Block& block = arena_.block(id);
  if (block.load().state() != BlockState::kFreed) release_kept(block);
  for (;;) {
    const StateWord word = block.load();
    switch (word.state()) {
      case BlockState::kFreed:
        return kInvalidValue;
      case BlockState::kBinding:
      case BlockState::kStarting:
      case BlockState::kUnmapping:
        ::sched_yield();  // a transition in the slow path; it ends with its driver calls
        break;
      default:
        if (freed_.add(id, freed_by, [&] { return move_to_freed(block, word, freed_by); })) return kOk;
    }
  }
}

// A copy that is still on its way would meet the memory's next life: the stream waits for it before it frees.
// Everything else that touched the block the program has ordered before.
Status Residency::free_in(BlockId id, Stream& stream) noexcept {
  const Block& block = arena_.block(id);
  Copies copies;
  const BlockState state = block.load().state();
  if (state == BlockState::kIncoming)
    copies.incoming = Use::from_raw(block.incoming.load(std::memory_order_acquire));
  if (state == BlockState::kOutgoing)
    copies.outgoing = Use::from_raw(block.outgoing.load(std::memory_order_acquire));
  if (const Status status = order_after(&stream, copies); !status.ok()) return status;
  return free(id, stream.draw());
}

// Under the free list's lock.
bool Residency::move_to_freed(Block& block, StateWord word, Use freed_by) noexcept {
  if (!block.move(word, BlockState::kFreed)) return false;
  uncount(block);
  const bool is_copied = word.state() == BlockState::kIncoming || word.state() == BlockState::kOutgoing;
  // Host slots of blocks that are being copied belong to the list of incoming copies, or to the eviction,
  // which notices. And with the device waited for before, only such a copy can still be under way.
  if (!is_copied) {
    host_.release(block.host);
    block.host.clear();
  }
  if (freed_by || !is_copied) block.forget_uses();
  if (freed_by) block.uses[0].store(freed_by.raw(), std::memory_order_release);
  return true;
}

Status Residency::wait_for_uses(const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return device_.synchronize();
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
    block.settle(block.extents.empty() ? BlockState::kReserved : BlockState::kResident);
  };
  const BlockId id = freed_.take(span, stream != nullptr ? stream->index() : std::uint16_t{0}, settle);
  // Where memory is short, waiting on the device for what another stream has freed is better than moving
  // blocks.
  if (id == kNoBlock && stream != nullptr && pool_.available() < span) {
    return freed_.take_waiting(span, *stream, settle);
  }
  return id;
}

DeviceResult<BlockId> Residency::new_block(Bytes requested, Bytes span) noexcept {
  DeviceResult<BlockId> id = arena_.add(requested, span);
  if (!id.ok() && freed_.return_addresses()) id = arena_.add(requested, span);
  return id;
}

void Residency::count(Block& block) noexcept {
  if (!block.counted.exchange(true)) census_.add(block.span);
}
void Residency::uncount(Block& block) noexcept {
  if (block.counted.exchange(false)) census_.remove(block.span);
}

}  // namespace tidepool::runtime
