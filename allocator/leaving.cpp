// The part of Residency that takes one block off the device, from the choice to the end: by a copy to the
// host, or without one where the host has the same bytes still. Runs in the slow path only, with the
// turnstile held.

#include <algorithm>
#include <cstring>
#include <utility>

#include "allocator/failed_call.h"
#include "allocator/recorder.h"
#include "allocator/residency.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
namespace {

bool same_bytes(const HostSlot& a, const HostSlot& b, Bytes size) noexcept {
  std::size_t in_a = 0;  // runs
  std::size_t in_b = 0;
  Bytes at_a;  // bytes of these runs
  Bytes at_b;
  while (size > Bytes()) {
    const Bytes piece = std::min({a[in_a].size - at_a, b[in_b].size - at_b, size});
    if (std::memcmp(a[in_a].base + at_a.count(), b[in_b].base + at_b.count(), piece.count()) != 0)
      return false;
    size -= piece;
    at_a += piece;
    at_b += piece;
    if (at_a == a[in_a].size) {
      ++in_a;
      at_a = Bytes();
    }
    if (at_b == b[in_b].size) {
      ++in_b;
      at_b = Bytes();
    }
  }
  return true;
}

}  // namespace

void Residency::open_hashes(DevicePtr memory) noexcept {
  const TurnstileGuard turn(turnstile_);
  Status status = device_.prepare_hash(memory);
  if (status.ok()) status = answers_.open();
  if (status.ok()) status = engine_.set(memory, answers_.zeros(), Device::kHashMemory);
  clean_ = status.ok();
  if (!clean_) emit<Ev::no_hashes>(static_cast<std::uint64_t>(status.code()));
}

void Residency::begin_eviction(BlockId id, StateWord chosen) noexcept {
  Block& block = arena_.block(id);
  if (!block.touched.load(std::memory_order_acquire)) {
    // Nothing to copy; uses of the memory's last life are waited for at the end.
    block.outgoing.store(0, std::memory_order_release);
    if (block.move(chosen, BlockState::kOutgoing)) {
      Recorder::move(arena_.recorded(id), plan::MoveKind::kDrop, block.requested());
      evictions_.push_back({.id = id, .word = chosen.next(BlockState::kOutgoing)});
    }
    return;
  }
  const bool has_copy = copies_.has_copy(id);
  const bool looks_first = clean_ && has_copy && copies_.is_promising(id);
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
  Use started;
  if (const Status status = engine_.order_after_uses(block); !status.ok()) {
    fail(eviction, status, started);
    return;
  }
  const bool hashes = clean_ && (looks_first || copies_.is_worth_a_hash(id)) && ask(eviction, &started);
  if (hashes && looks_first) {
    if (const DeviceResult<Use> asked = engine_.mark_out(started); asked.ok()) {
      publish(eviction, *asked, Step::kAsking);
      evictions_.push_back(std::move(eviction));
      return;
    }
  }
  if (start_copy(eviction, started)) evictions_.push_back(std::move(eviction));
}

// Has the block hashed where it stands in the order of copies out. False: the answer will not come.
bool Residency::ask(Eviction& eviction, Use* started) noexcept {
  eviction.answer = answers_.take();
  if (eviction.answer == nullptr) return false;
  if (engine_.hash(arena_.block(eviction.id), eviction.answer, started).ok()) return true;
  answers_.put(std::exchange(eviction.answer, nullptr), *started);
  return false;
}

// From here on whoever changes the word ends the eviction, which keeps the word that it had, and is ordered
// after `last`.
void Residency::publish(Eviction& eviction, Use last, Step step) noexcept {
  Block& block = arena_.block(eviction.id);
  eviction.word = eviction.word.next(BlockState::kOutgoing);
  eviction.last = last;
  eviction.step = step;
  block.outgoing.store(last.raw(), std::memory_order_release);
  block.settle(BlockState::kOutgoing);
}

// The block is in kStarting, and all of its uses come before in the order of copies out.
bool Residency::start_copy(Eviction& eviction, Use started) noexcept {
  Block& block = arena_.block(eviction.id);
  const DeviceResult<Use> copied = engine_.copy_out(block, eviction.slot, &started);
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
    lost_.push_back({std::move(eviction.slot), started});
  }
  if (waited.ok() || is_capture_error(waited)) {
    note_refusal(eviction.id, error);
  } else {
    device_error_ = waited;
  }
  eviction.slot.clear();
  answers_.put(std::exchange(eviction.answer, nullptr), started);
  arena_.block(eviction.id).settle(BlockState::kResident);
}

// The hash has come: there is nothing to copy, or the copy starts now. Where the block was taken back or
// freed it says nothing any more.
void Residency::act_on_answer(Eviction& eviction) noexcept {
  Block& block = arena_.block(eviction.id);
  if (block.load() != eviction.word) return;
  const ContentHash now = *eviction.answer;
  const ContentHash* before = copies_.hash_of(eviction.id);
  const bool is_same = before != nullptr && *before == now;
  if (is_same && check_ != CheckLevel::kFull) {
    copies_.note(eviction.id, now);
    eviction.step = Step::kUnchanged;
    return;
  }
  if (!block.move(eviction.word, BlockState::kStarting)) return;
  eviction.word = eviction.word.next(BlockState::kStarting);
  answers_.put(std::exchange(eviction.answer, nullptr), eviction.last);
  copies_.note(eviction.id, now);
  eviction.is_noted = true;
  if (is_same) {
    verify(eviction);
  } else {
    (void)start_copy(eviction, eviction.last);
  }
}

void Residency::act_on_answers() noexcept {
  std::uint64_t not_passed = ~std::uint64_t{0};  // the order of copies out is one stream
  for (Eviction& eviction : evictions_) {
    if (eviction.step != Step::kAsking || eviction.last.ticket() >= not_passed) continue;
    if (!streams_.passed(eviction.last)) {
      not_passed = eviction.last.ticket();
    } else {
      act_on_answer(eviction);
    }
  }
}

// TIDEPOOL_CHECK=full: the copy is made all the same, beside the one that is there. Where they differ the new
// one counts.
void Residency::verify(Eviction& eviction) noexcept {
  Block& block = arena_.block(eviction.id);
  DeviceResult<HostSlot> fresh = host_.allocate(size_of(eviction.slot));
  if (!fresh.ok()) return publish(eviction, eviction.last, Step::kUnchanged);
  Use started = eviction.last;
  const DeviceResult<Use> copied = engine_.copy_out(block, *fresh, &started);
  const Status status = copied.ok() ? wait_host(*copied, Metric::wait_copy_out_ns_total) : copied.error();
  if (!status.ok()) {
    std::swap(eviction.slot, *fresh);
    host_.release(*fresh);
    return fail(eviction, status, started);
  }
  if (same_bytes(eviction.slot, *fresh, block.requested())) {
    host_.release(*fresh);
    return publish(eviction, *copied, Step::kUnchanged);
  }
  report<Msg::TP3004>(BytesText(block.requested()).c_str());
  host_.release(eviction.slot);
  eviction.slot = std::move(fresh).value();
  eviction.is_noted = false;
  publish(eviction, *copied, Step::kCopying);
}

// Until nothing on the device touches the memory any more: what was enqueued for the eviction came after all
// uses.
Status Residency::wait_for(const Eviction& eviction) noexcept {
  if (eviction.last) {
    if (streams_.passed(eviction.last)) return kOk;
    StatsPage::instance().add(Metric::copy_out_waits_total, 1);
    waited_for_copy_out_ = true;
    return wait_host(eviction.last, Metric::wait_copy_out_ns_total);
  }
  return wait_for_uses(arena_.block(eviction.id));
}

// Takes the oldest eviction further, or one that has only to be ended; true if memory came free.
bool Residency::finish_eviction() noexcept {
  act_on_answers();
  auto next = std::find_if(evictions_.begin(), evictions_.end(),
                           [](const Eviction& eviction) { return eviction.step == Step::kUnchanged; });
  if (next == evictions_.end()) next = evictions_.begin();
  const Status status = wait_for(*next);
  if (status.ok() && next->step == Step::kAsking) {
    act_on_answer(*next);
    if (next->step == Step::kCopying) return false;  // its copy has just begun
  }
  Eviction eviction = std::move(*next);
  evictions_.erase(next);
  Block& block = arena_.block(eviction.id);
  if (!status.ok()) {
    if (is_capture_error(status)) {
      note_refusal(eviction.id, status);
    } else {
      device_error_ = status;
    }
    block.move(eviction.word, BlockState::kResident);
    answers_.put(eviction.answer, eviction.last);
    lost_.push_back({std::move(eviction.slot), eviction.last});
    return false;
  }
  if (!block.move(eviction.word, BlockState::kUnmapping)) {
    end_void(eviction);
    return false;
  }
  const Bytes before = block.backed();
  unmap_extents(block);
  if (eviction.step == Step::kUnchanged) {
    Recorder::move(arena_.recorded(eviction.id), plan::MoveKind::kClean, block.requested());
    StatsPage::instance().add(Metric::clean_bytes_total, block.requested().count());
    emit<Ev::block_clean>(block.base.address(), block.requested());
  } else if (!note_copied(eviction)) {
    copies_.forget_hash(eviction.id);
  }
  answers_.put(eviction.answer, eviction.last);
  block.host = std::move(eviction.slot);
  block.settle(eviction.step == Step::kNothing ? BlockState::kReserved : BlockState::kOut);
  return block.backed() < before;
}

// After the copy: is the hash of what the slot holds known now?
bool Residency::note_copied(const Eviction& eviction) noexcept {
  if (eviction.step == Step::kCopying && eviction.answer != nullptr) {
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
  answers_.put(eviction.answer, eviction.last);
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
    if (arena_.block(eviction.id).load() == eviction.word || !streams_.passed(eviction.last)) return false;
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
