// The part of Residency that takes one block off the device, from the choice to the end: by a copy to the
// host, or without one where the host has the same bytes still. Runs in the slow path only, with the
// turnstile held.

#include <algorithm>
#include <utility>

#include "allocator/failed_call.h"
#include "allocator/recorder.h"
#include "allocator/residency.h"
#include "allocator/support/events.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
void Residency::open_hashes(DevicePtr memory) noexcept {
  const TurnstileGuard turn(turnstile_);
  const Status status = questions_.open(memory);
  if (!status.ok()) emit<Ev::no_hashes>(static_cast<std::uint64_t>(status.code()));
}

// A copy that was begun before the block was taken back reads it still, in a stream that what is enqueued now
// may overtake.
bool Residency::is_read_by_copy(const Block& block) noexcept {
  return !streams_.passed_or_wanted(Use::from_raw(block.outgoing.load(std::memory_order_acquire)));
}

void Residency::begin_eviction(BlockId id, StateWord chosen) noexcept {
  Block& block = arena_.block(id);
  if (is_read_by_copy(block)) {
    // The eviction that it was of is waited for in its turn; a copy that failed in part is nobody's.
    Status status = kNotReady;
    if (!being_copied(id)) {
      status = wait_host(Use::from_raw(block.outgoing.load()), Metric::wait_copy_out_ns_total);
      if (!status.ok()) note_refusal(id, status);
    }
    if (!status.ok()) {
      block.move(chosen, BlockState::kResident);
      return;
    }
  }
  if (!block.touched.load(std::memory_order_acquire)) {
    // Nothing to copy; uses of the memory's last life are waited for at the end.
    block.outgoing.store(0, std::memory_order_release);
    block.hashing.store(0, std::memory_order_release);
    const bool is_over = is_idle(block);
    if (block.move(chosen, BlockState::kOutgoing)) {
      Recorder::move(arena_.recorded(id), plan::MoveKind::kDrop, block.requested());
      evictions_.push_back({.id = id, .word = chosen.next(BlockState::kOutgoing), .is_ready = is_over});
    }
    return;
  }
  const SwapEngine::Lane lane = engine_.lane_for(block);
  if (lane == SwapEngine::kNone) {
    block.move(chosen, BlockState::kResident);
    return;
  }
  const bool has_copy = copies_.has_copy(id);
  const bool looks_first = has_copy && copies_.is_promising(id);
  HostSlot slot = copies_.take(id);
  if (slot.empty()) {
    DeviceResult<HostSlot> made = copies_.make_slot(block.requested().round_up(kGranule));
    if (!made.ok()) {
      host_is_full_ = true;
      block.move(chosen, BlockState::kResident);
      return;
    }
    slot = std::move(made).value();
  }
  if (!block.move(chosen, BlockState::kStarting)) {
    // A launch took it back, or it was freed: no byte travels for nothing.
    if (has_copy) {
      copies_.keep(id, std::move(slot));
    } else {
      host_.release(slot);
    }
    return;
  }
  Eviction eviction{.id = id, .word = chosen.next(BlockState::kStarting), .slot = std::move(slot)};
  const auto ask = [&](bool are_over) {
    eviction.answer = questions_.ask(id, block, are_over);
    return eviction.answer != nullptr;
  };
  eviction.lane = lane;
  eviction.is_ready = lane == SwapEngine::kReady;
  if (looks_first && ask(/*are_over=*/false)) {
    publish(eviction, {}, Step::kAsking);
    evictions_.push_back(std::move(eviction));
    return;
  }
  if (const Status status = see_to_uses(eviction); !status.ok()) {
    fail(eviction, status, {});
    return;
  }
  // The device has been waited for where not all uses are known.
  if (!looks_first && copies_.is_worth_a_hash(id))
    (void)ask(block.used_widely.load(std::memory_order_acquire));
  if (start_copy(eviction)) evictions_.push_back(std::move(eviction));
}

// The copy comes after all uses of the block.
Status Residency::see_to_uses(Eviction& eviction) noexcept {
  const Block& block = arena_.block(eviction.id);
  eviction.lane = engine_.lane_for(block);
  if (eviction.lane == SwapEngine::kNone) return kNotReady;
  eviction.is_ready = eviction.lane == SwapEngine::kReady;
  if (const Status status = engine_.order_after_uses(block, eviction.lane); !status.ok()) return status;
  // Asked last: if no stream awaits a value by now, none did before any use that the copy comes after.
  if (!only_idle_may_leave() || block.used_widely.load(std::memory_order_acquire) || is_idle(block))
    return kOk;
  return kNotReady;
}

// From here on whoever changes the word ends the eviction, which keeps the word that it had, and is ordered
// after `copied`.
void Residency::publish(Eviction& eviction, Use copied, Step step) noexcept {
  Block& block = arena_.block(eviction.id);
  eviction.word = eviction.word.next(BlockState::kOutgoing);
  eviction.copied = copied;
  eviction.step = step;
  block.outgoing.store(copied.raw(), std::memory_order_release);
  block.hashing.store(questions_.use_of(eviction.answer).raw(), std::memory_order_release);
  block.settle(BlockState::kOutgoing);
}

// The block is in kStarting, and all of its uses come before in the order of copies out.
bool Residency::start_copy(Eviction& eviction) noexcept {
  Block& block = arena_.block(eviction.id);
  Use started;
  const DeviceResult<Use> copied = engine_.copy_out(block, eviction.slot, eviction.lane, &started);
  if (!copied.ok()) {
    fail(eviction, copied.error(), started);
    return false;
  }
  Recorder::move(arena_.recorded(eviction.id), plan::MoveKind::kOut, block.requested());
  publish(eviction, *copied, Step::kCopying);
  return true;
}

// The block stays where it is. Pieces that did start still write to the slot; if the device does not even
// answer, it is lost with them.
void Residency::fail(Eviction& eviction, Status error, Use started) noexcept {
  if (!is_capture_error(error) && error != kNotReady) report_failed_call("cuMemcpyDtoHAsync", error);
  const Status waited = wait_host(started, Metric::wait_copy_out_ns_total);
  if (waited.ok()) {
    host_.release(eviction.slot);
  } else {
    arena_.block(eviction.id).outgoing.store(started.raw(), std::memory_order_release);
    lost_.push_back({std::move(eviction.slot), started});
  }
  if (waited.ok() || is_capture_error(waited)) {
    note_refusal(eviction.id, error);
  } else {
    device_error_ = waited;
  }
  eviction.slot.clear();
  questions_.put(std::exchange(eviction.answer, nullptr));
  arena_.block(eviction.id).settle(BlockState::kResident);
}

// The hash has come: there is nothing to copy, or the copy starts now; so it does where the hash will never
// come. Where the block was taken back or freed it says nothing any more.
void Residency::act_on_answer(Eviction& eviction) noexcept {
  Block& block = arena_.block(eviction.id);
  if (block.load() != eviction.word) return;
  const HashQuestions::Answer answer = questions_.look(eviction.answer);
  if (answer == HashQuestions::Answer::kPending) return;
  const bool is_here = answer == HashQuestions::Answer::kHere;
  const ContentHash now = is_here ? *eviction.answer : ContentHash{};
  const ContentHash* before = copies_.hash_of(eviction.id);
  const bool is_same = is_here && before != nullptr && *before == now;
  if (is_same) {
    copies_.note(eviction.id, now);
    eviction.step = Step::kUnchanged;
    return;
  }
  if (!block.move(eviction.word, BlockState::kStarting)) return;
  eviction.word = eviction.word.next(BlockState::kStarting);
  questions_.put(std::exchange(eviction.answer, nullptr));
  if (is_here) copies_.note(eviction.id, now);
  eviction.is_noted = is_here;
  // What was hashed had its uses behind it, and has had none since. What was not, may be in use still, unless
  // the device was waited for.
  eviction.lane = SwapEngine::kReady;
  eviction.is_ready = true;
  if (!is_here && !block.used_widely.load(std::memory_order_acquire)) {
    if (const Status status = see_to_uses(eviction); !status.ok()) return fail(eviction, status, {});
  }
  (void)start_copy(eviction);
}

void Residency::act_on_answers() noexcept {
  for (Eviction& eviction : evictions_) {
    if (eviction.step == Step::kAsking) act_on_answer(eviction);
  }
}

// Until nothing on the device touches the memory any more: what was enqueued for the eviction came after all
// uses.
Status Residency::wait_for(const Eviction& eviction) noexcept {
  if (eviction.step == Step::kNothing) {
    if (const Status status = wait_for_uses(arena_.block(eviction.id)); !status.ok()) return status;
  }
  if (has_passed(eviction)) return kOk;
  count_wait_for_copy_out();
  const Status status = wait_host(eviction.copied, Metric::wait_copy_out_ns_total);
  return status.ok() ? wait_for_hashes(eviction.id) : status;
}

void Residency::count_wait_for_copy_out() noexcept {
  StatsPage::instance().add(Metric::copy_out_waits_total, 1);
  waited_for_copy_out_ = true;
}

bool Residency::has_passed(const Eviction& eviction) noexcept {
  return streams_.passed(eviction.copied) && !questions_.reading(eviction.id);
}

// Until no hash reads the block; what is not there in time is given up. kNotReady: nor is it known that it
// was.
Status Residency::wait_for_hashes(BlockId id) noexcept {
  const Use hash = questions_.reading(id);
  if (!hash) return kOk;
  const WaitClock clock(Metric::wait_copy_out_ns_total);
  const Nanos patience = questions_.is_open() ? kAnswerPatience : Nanos();
  const Status status = streams_.wait_host_until(hash, monotonic_now() + patience);
  return status == kNotReady ? questions_.give_up() : status;
}

// Takes one eviction further; true if memory came free.
bool Residency::finish_eviction() noexcept {
  act_on_answers();
  const auto next = next_to_finish();
  const Status status = wait_for(*next);
  if (status.ok() && next->step == Step::kAsking) {
    act_on_answer(*next);
    if (next->step == Step::kCopying) return false;  // its copy has just begun
  }
  Eviction eviction = std::move(*next);
  evictions_.erase(next);
  Block& block = arena_.block(eviction.id);
  const auto stays = [&](Status why) {
    if (is_capture_error(why) || why == kNotReady) {
      note_refusal(eviction.id, why);
    } else {
      device_error_ = why;
    }
    questions_.put(eviction.answer);
    lost_.push_back({std::move(eviction.slot), eviction.copied});
    return false;
  };
  if (!status.ok()) {
    block.move(eviction.word, BlockState::kResident);
    return stays(status);
  }
  if (!block.move(eviction.word, BlockState::kUnmapping)) {
    end_void(eviction);
    return false;
  }
  if (check_ == CheckLevel::kFull) {
    if (const Status looked = verify_leaving(eviction); !looked.ok()) {
      block.settle(BlockState::kResident);
      return stays(looked);
    }
  }
  const Bytes before = block.backed();
  const Status unmapped = unmap_extents(eviction.id);
  if (!unmapped.ok()) note_refusal(eviction.id, unmapped);
  if (eviction.step == Step::kUnchanged) {
    Recorder::move(arena_.recorded(eviction.id), plan::MoveKind::kClean, block.requested());
    StatsPage::instance().add(Metric::clean_bytes_total, block.requested().count());
    emit<Ev::block_clean>(block.base.address(), block.requested());
  } else if (!note_copied(eviction)) {
    copies_.forget_hash(eviction.id);
  }
  questions_.put(eviction.answer);
  block.host = std::move(eviction.slot);
  block.settle(eviction.step == Step::kNothing ? BlockState::kReserved : BlockState::kOut);
  return block.backed() < before;
}

// After the copy: is the hash of what the slot holds known now?
bool Residency::note_copied(const Eviction& eviction) noexcept {
  if (eviction.step == Step::kCopying && eviction.answer != nullptr &&
      questions_.look(eviction.answer) == HashQuestions::Answer::kHere) {
    copies_.note(eviction.id, *eviction.answer);
    return true;
  }
  return eviction.is_noted;
}

// The block was taken back, or freed, and all has passed. A slot that nothing was copied to still holds what
// its hash says. One that was copied to does if that was over when the block was taken back; before, only the
// stream that took it back was ordered after the copy, and others may have written under it.
void Residency::end_void(Eviction& eviction) noexcept {
  const Block& block = arena_.block(eviction.id);
  const bool is_here = block.load() == eviction.word.next(BlockState::kResident);
  const bool is_whole = eviction.step != Step::kCopying ||
                        block.taken_whole.load(std::memory_order_acquire) == eviction.word.raw();
  const bool has_hash = is_here && is_whole && (eviction.step != Step::kCopying || note_copied(eviction));
  questions_.put(eviction.answer);
  if (has_hash) {
    copies_.keep(eviction.id, std::move(eviction.slot));
  } else {
    host_.release(eviction.slot);
  }
}

void Residency::finish_all_evictions() noexcept {
  while (!evictions_.empty()) finish_eviction();
}

// What is void, since the block was taken back or freed, and has passed.
void Residency::sweep_evictions() noexcept {
  act_on_answers();
  std::erase_if(evictions_, [&](Eviction& eviction) {
    if (arena_.block(eviction.id).load() == eviction.word || !has_passed(eviction)) return false;
    end_void(eviction);
    return true;
  });
}

// What is leaving and has not been taken back.
Bytes Residency::leaving() const noexcept {
  Bytes sum;
  for (const Eviction& eviction : evictions_) {
    const Block& block = arena_.block(eviction.id);
    if (block.load() == eviction.word) sum += block.span;
  }
  return sum;
}

}  // namespace tidepool::runtime
