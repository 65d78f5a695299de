// TIDEPOOL_CHECK=unmap (docs/explanation/decisions/0021): blocks that no work uses keep their memory and lose
// their address, so that work which found a pointer where nobody looks meets an illegal address, and not by
// luck what it looked for. No byte moves.

#include <algorithm>

#include "allocator/epoch.h"
#include "allocator/failed_call.h"
#include "allocator/residency.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

void Residency::park_idle(Use use, WorkName what) noexcept {
  if (frozen()) return;
  const TurnstileGuard turn(turnstile_);
  const Status ended = wait_for_mapped(use);
  is_patient_ = ended != kNotReady;
  if (!ended.ok() && ended != kNotReady) {
    if (is_wrong_address(ended)) report_lost(WorkName::Text(what).c_str(), ended);
    return;
  }
  settle_incoming();
  finish_evictions_that_passed();
  parking_.clear();
  for (BlockId id = 1; id < arena_.end_id(); ++id) {
    Block& block = arena_.block(id);
    const StateWord word = block.load();
    if (word.state() != BlockState::kResident || block.pins.load(std::memory_order_seq_cst) != 0) continue;
    if (block.move(word, BlockState::kChosen)) parking_.emplace_back(id, word.next(BlockState::kChosen));
  }
  if (parking_.empty()) return;
  // As when blocks leave: a launch that saw one of them resident is still to store its tickets.
  const std::uint64_t stuck = EpochRegistry::instance().quiesce(kQuiesce);
  for (const auto& [id, word] : parking_) {
    Block& block = arena_.block(id);
    if ((stuck & EpochRegistry::bit_of(id)) != 0 || block.pins.load(std::memory_order_seq_cst) != 0 ||
        !is_idle(block) || is_read_by_copy(block) || questions_.reading(id)) {
      block.move(word, BlockState::kResident);
      continue;
    }
    if (!block.move(word, BlockState::kUnmapping)) continue;  // taken back, or freed
    block.settle(unmap_keeping(block).ok() ? BlockState::kParked : BlockState::kResident);
  }
}

// Until nothing runs that may use a block with an address: kNotReady when the time is over first.
Status Residency::wait_for_mapped(Use use) noexcept {
  const Nanos deadline = monotonic_now() + (is_patient_ ? kParkPatience : kParkImpatience);
  Status status = streams_.wait_host_until(use, deadline);
  const auto wait = [&](Use one) {
    if (!status.ok() && status != kNotReady) return;
    if (const Status waited = streams_.wait_host_until(one, deadline); !waited.ok()) status = waited;
  };
  for (const Eviction& eviction : evictions_) wait(eviction.copied);
  for (BlockId id = 1; id < arena_.end_id(); ++id) {
    const Block& block = arena_.block(id);
    const BlockState state = block.load().state();
    if (state != BlockState::kResident && state != BlockState::kIncoming && state != BlockState::kOutgoing)
      continue;
    if (block.kept.load(std::memory_order_acquire)) continue;
    for (const auto& one : block.uses) wait(Use::from_raw(one.load(std::memory_order_acquire)));
  }
  return status;
}

bool Residency::is_idle(const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return false;
  return std::all_of(block.uses.begin(), block.uses.end(), [&](const auto& use) {
    return streams_.passed(Use::from_raw(use.load(std::memory_order_acquire)));
  });
}

// Nobody is waited for: an eviction that was to make room may be of a block that a kernel uses for long.
void Residency::finish_evictions_that_passed() noexcept {
  device_error_ = kOk;
  while (!evictions_.empty() && device_error_.ok()) {
    const Eviction& oldest = evictions_.front();
    if (!has_passed(oldest)) return;
    if (oldest.step == Step::kNothing && !is_idle(arena_.block(oldest.id))) return;
    (void)finish_eviction();
  }
}

// Gives the block its address back; on failure it is parked as before. In kBinding nobody else touches it.
Status Residency::unpark(Block& block, StateWord parked) noexcept {
  if (!block.move(parked, BlockState::kBinding)) return kOk;  // freed this moment: the caller looks again
  const Status status = map_extents(block);
  if (!status.ok()) (void)unmap_keeping(block);
  block.settle(status.ok() ? BlockState::kResident : BlockState::kParked);
  return status;
}

// All extents in one call where all are mapped, so that it happens as a whole or not at all. What stays
// mapped after an error, in a block that was only partly mapped, is no harm: its next binding completes it.
Status Residency::unmap_keeping(Block& block) noexcept {
  Status status = kOk;
  const auto unmap = [&](DevicePtr at, Bytes size) {
    const Status done = device_.unmap(at, size);
    if (!done.ok()) report_failed_call("cuMemUnmap", done);
    if (!done.ok()) status = done;
    return done.ok();
  };
  const bool is_whole =
      std::all_of(block.extents.begin(), block.extents.end(), [](const Extent& e) { return e.mapped; });
  if (is_whole) {
    if (!unmap(block.base, block.span)) return status;
    for (Extent& extent : block.extents) extent.mapped = extent.open = false;
    return kOk;
  }
  DevicePtr at = block.base;
  for (Extent& extent : block.extents) {
    if (extent.mapped && unmap(at, extent.size)) extent.mapped = extent.open = false;
    at = at + extent.size;
  }
  return status;
}

}  // namespace tidepool::runtime
