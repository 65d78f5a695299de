// The half of Residency that makes room: taking memory from freed pairs and from the least recently used
// blocks. Runs in the slow path only, with the turnstile held.

#include <time.h>

#include <algorithm>
#include <functional>

#include "allocator/epoch.h"
#include "allocator/residency.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

Status Residency::acquire(Block& block) noexcept {
  Bytes missing = block.span - block.backed();
  for (int attempt = 0;;) {
    // Nothing is taken before there is enough: it would be in pieces, and each piece is mapped by itself.
    const bool is_enough = pool_.available() >= missing;
    if (is_enough) missing = pool_.take(missing, block.extents);
    if (missing == Bytes()) return kOk;
    if (is_enough) ++attempt;
    if (make_room(is_enough ? missing : missing - pool_.available(), Patience::kMinute)) continue;
    // Nothing can move, but the driver refused memory below the limit: that may have been a passing refusal.
    if (device_error_.ok() && pool_.available() >= missing && attempt < kAttempts) continue;
    // Under a budget that was lowered others may have come to hold what this launch was found to fit beside.
    const Bytes needed = pool_.created() + missing;
    if (device_error_.ok() && needed > pool_.limit() && fits(needed)) continue;
    const bool is_device_full = pool_.available() >= missing;
    while (!block.extents.empty() && !block.extents.back().mapped) {
      pool_.put(block.extents.back());
      block.extents.pop_back();
    }
    if (!device_error_.ok()) return device_error_;
    if (!pool_.lost().ok()) return pool_.lost();
    if (!is_device_full) return refuse_now(block.span);
    report_on<Msg::TP2010>(device_.number(), BytesText(block.span).c_str(), BytesText(pool_.limit()).c_str(),
                           BytesText(pool_.created()).c_str());
    return count_refusal();
  }
}

// True once the pool has more than before. False: nothing can move, or device_error_ says why not.
bool Residency::make_room(Bytes missing, Patience patience) noexcept {
  const Nanos start = monotonic_now();
  const Nanos deadline = start + (patience == Patience::kMinute   ? kPatience
                                  : patience == Patience::kMoment ? kUsePatience
                                                                  : Nanos());
  bool is_held_up = false;
  LongWait long_wait;
  for (;;) {
    const std::uint64_t frees = freed_.added();
    if (strip_freed()) return true;
    // What was freed costs no copy: the device is behind, and waiting for it leaves its queue full.
    // Where it may be waiting for what is enqueued after this, all else is tried first, again and again.
    const bool may_wait = !only_idle_may_leave();
    if (may_wait && wait_for_freed()) continue;
    if (!device_error_.ok()) return false;
    if (take_left_behind()) return true;
    if (are_held_up(is_held_up ? kUseGlance : Nanos())) {
      is_held_up = true;
      settle_incoming();  // what has arrived may leave
      start_evictions(missing, Victims::kIdle);
      streams_.make_marks();
      report_long_wait(long_wait, start);
      if (std::none_of(evictions_.begin(), evictions_.end(), may_be_waited_for)) continue;
    }
    if (!evictions_.empty()) {
      if (finish_eviction()) return true;
      if (!device_error_.ok()) return false;
      continue;  // its block may have been freed meanwhile
    }
    start_evictions(missing);
    if (!evictions_.empty()) continue;
    // Blocks on their way in can be evicted, and their host slots used, once they have arrived.
    if (wait_for_incoming()) continue;
    if (!device_error_.ok()) return false;
    // What is left is held by launches between their check and their enqueue; they do not wait for us.
    bool held = others_hold_memory() || (!may_wait && freed_.oldest_busy().id != kNoBlock);
    // Asked after the look: a free before it is counted here, one after it was still held then.
    if (freed_.added() != frees) continue;
    // Other threads have copied tables since the turn began, and have kept what those led to. Looked again
    // after that: of two threads that ask, one hears that there was nothing.
    if (!held && patience == Patience::kMinute && !host_is_full_)
      held = let_go_unneeded() || others_hold_memory();
    const bool is_late = (may_wait || patience != Patience::kMinute) && monotonic_now() > deadline;
    if (host_is_full_ || !held || is_late) {
      device_error_ = failure_;
      return false;
    }
    if (!may_wait) report_long_wait(long_wait, start);
    const WaitClock clock(Metric::wait_launches_ns_total);
    const timespec nap{0, 50'000};
    ::nanosleep(&nap, nullptr);
  }
}

bool Residency::others_hold_memory() noexcept {
  if (frozen()) return false;
  for (BlockId id = 1; id < arena_.end_id(); ++id) {
    const Block& block = arena_.block(id);
    const BlockState state = block.load().state();
    if (state != BlockState::kResident || block.kept.load(std::memory_order_acquire)) continue;
    if (refusals_of(id) >= kAttempts) continue;
    if (!std::binary_search(wanted_.begin(), wanted_.end(), id)) return true;
  }
  return false;
}

// A copy out that was under way when a block was freed still reads it.
bool Residency::being_copied(BlockId id) const noexcept {
  return std::any_of(evictions_.begin(), evictions_.end(),
                     [&](const Eviction& eviction) { return eviction.id == id; });
}

// The oldest freed pair that some stream may still touch becomes idle. True if the latest strip_freed() left
// any out for that; they may have become idle by themselves meanwhile.
bool Residency::wait_for_freed() noexcept {
  const FreeList::Entry busy = freed_.oldest_busy();
  if (busy.id == kNoBlock) return false;
  const Block& block = arena_.block(busy.id);
  const bool is_widely_used = block.used_widely.load(std::memory_order_acquire);
  if (const Status status = wait_for_uses(block); !status.ok()) {
    if (!is_capture_error(status)) device_error_ = status;
    return false;
  }
  if (is_widely_used) freed_.forget_uses(busy);
  return true;
}

// Takes the memory of one freed pair, oldest first. One that the driver does not unmap goes to the end.
bool Residency::strip_freed() noexcept {
  for (;;) {
    const BlockId id = freed_.take_oldest_idle([&](BlockId one) {
      return being_copied(one) || is_read_by_copy(arena_.block(one)) || questions_.reading(one) ||
             refusals_of(one) >= kAttempts;
    });
    streams_.make_marks();
    if (id == kNoBlock) return false;
    Block& block = arena_.block(id);
    const Bytes before = block.backed();
    block.settle(BlockState::kUnmapping);
    const Status status = unmap_extents(id);
    block.settle(BlockState::kFreed);
    const bool has_less = block.backed() < before;
    if (block.extents.empty() && !block.is_pinned()) {
      arena_.remove(id);
    } else {
      freed_.put_back(id);
    }
    if (has_less) return true;
    if (!status.ok()) note_refusal(id, status);
  }
}

// Takes the memory that stayed under one block when it left. Those that the owner is bringing keep theirs.
bool Residency::take_left_behind() noexcept {
  for (std::size_t i = 0; i < left_behind_.size();) {
    const BlockId id = left_behind_[i];
    Block& block = arena_.block(id);
    const StateWord word = block.load();
    const bool is_wanted = std::binary_search(wanted_.begin(), wanted_.end(), id);
    if (is_wanted || refusals_of(id) >= kAttempts) {
      ++i;
      continue;
    }
    left_behind_.erase(left_behind_.begin() +
                       static_cast<std::ptrdiff_t>(i));  // comes back if it fails again
    const BlockState state = word.state();
    if (state != BlockState::kOut && state != BlockState::kReserved) continue;
    if (!block.move(word, BlockState::kUnmapping)) continue;  // freed: a pair like any other
    const Bytes before = block.backed();
    const Status status = unmap_extents(id);
    block.settle(state);
    if (block.backed() < before) return true;
    if (!status.ok()) note_refusal(id, status);
  }
  return false;
}

void Residency::begin_turn() noexcept {
  device_error_ = kOk;
  refusals_.clear();
  failures_ = 0;
  failure_ = kOk;
}

// A block that could not leave is tried again only after all others. While a stream is captured some cannot
// be asked for what uses them: in this turn they cannot move, which is no error of the device.
void Residency::note_refusal(BlockId id, Status error) noexcept {
  auto refusal =
      std::find_if(refusals_.begin(), refusals_.end(), [&](const Refusal& r) { return r.id == id; });
  if (refusal == refusals_.end()) refusal = refusals_.insert(refusals_.end(), {id, 0});
  if (is_capture_error(error)) {
    refusal->times = kAttempts;
    return;
  }
  // Another thread is in the driver with a stream that has used it: it may be the only one left all the same.
  if (error == kNotReady) {
    refusal->times = std::max(refusal->times, kAttempts - 1);
    return;
  }
  ++refusal->times;
  failure_ = error;
  if (++failures_ >= kMostFailures) device_error_ = error;
}

int Residency::refusals_of(BlockId id) const noexcept {
  for (const Refusal& refusal : refusals_) {
    if (refusal.id == id) return refusal.times;
  }
  return 0;
}

const std::vector<BlockId>& Residency::choose_victims(Bytes missing, Victims which) noexcept {
  std::vector<std::pair<std::uint64_t, BlockId>>& candidates = candidates_;
  std::vector<BlockId>& victims = victims_;
  candidates.clear();
  victims.clear();
  const bool must_be_idle = which == Victims::kIdle || only_idle_may_leave();
  for (BlockId id = 1; id < arena_.end_id(); ++id) {
    const Block& block = arena_.block(id);
    const BlockState state = block.load().state();
    if (state != BlockState::kResident && state != BlockState::kParked) continue;
    if (block.pins.load(std::memory_order_seq_cst) != 0) continue;
    int refusals = refusals_of(id);
    if (refusals >= kAttempts) continue;
    if (must_be_idle && !is_idle_or_marked(block)) {
      // Of what too many streams have used it is not known when it is idle: where all else has left.
      if (which == Victims::kIdle || !block.used_widely.load(std::memory_order_acquire)) continue;
      refusals += kAttempts;
    }
    candidates.emplace_back(
        block.last_use.load(std::memory_order_relaxed) + static_cast<unsigned>(refusals) * kRefusedLater, id);
  }
  // A turn needs few of many: a heap gives them in the same order as a sort of all would.
  std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  while (missing > Bytes() && !candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const BlockId id = candidates.back().second;
    candidates.pop_back();
    victims.push_back(id);
    missing -= arena_.block(id).span;
  }
  return victims;
}

void Residency::start_evictions(Bytes missing, Victims which) noexcept {
  host_is_full_ = false;
  if (frozen()) return;
  std::vector<std::pair<BlockId, StateWord>> chosen;
  for (const BlockId id : choose_victims(missing, which)) {
    Block& block = arena_.block(id);
    StateWord word = block.load();
    for (int attempt = 0; attempt < kAttempts && word.state() == BlockState::kParked; ++attempt) {
      (void)unpark(block, word);  // a copy needs its address
      word = block.load();
    }
    if (word.state() != BlockState::kResident || !block.move(word, BlockState::kChosen)) continue;
    chosen.emplace_back(id, word.next(BlockState::kChosen));
  }
  if (chosen.empty()) return;
  // A launch that saw one of them resident is still to store its tickets: without them the copy could run
  // before the kernel that writes the block.
  const std::uint64_t stuck = EpochRegistry::instance().quiesce(kQuiesce);
  for (const auto& [id, word] : chosen) {
    Block& block = arena_.block(id);
    if ((stuck & EpochRegistry::bit_of(id)) != 0 || block.pins.load(std::memory_order_seq_cst) != 0) {
      block.move(word, BlockState::kResident);
      continue;
    }
    begin_eviction(id, word);
  }
}

// How much shall be leaving beyond what a turn needs, so that a later turn finds it copied and waits for
// nothing. The blocks stay where they are, and whoever uses one meanwhile takes it back. As much as the next
// turns will bring in, by experience, and at most an eighth of the device's share: what is copied too early
// may be copied again.
Bytes Residency::ahead() const noexcept {
  // Blocks on their way out keep their addresses: not where none may have one that it does not need.
  if (pressure_ == 0 || frozen() || !device_error_.ok() || check_ == CheckLevel::kUnmap) return {};
  return std::min(brought_ * kTurnsAhead, Bytes(pool_.limit().count() / kMostAhead));
}

void Residency::start_leaving(Bytes wanted) noexcept {
  const Bytes at_hand = pool_.available() + freed_.bytes() + leaving();
  if (wanted > at_hand) start_evictions(wanted - at_hand);
}

bool Residency::shrink_to(Bytes most, bool waits) noexcept {
  const Patience patience = waits ? Patience::kMoment : Patience::kNone;
  const WaitClock clock(Metric::wait_moving_ns_total);
  const TurnstileGuard turn(turnstile_);
  wanted_.clear();
  settle_incoming();
  begin_turn();
  do {
    pool_.trim_to(most);
    if (pool_.created() > most && pool_.spare() > Bytes()) pool_.trim_to(most);  // one failure is survived
    // What is spare the driver does not take back: more of it would not help.
    if (pool_.spare() > Bytes()) break;
  } while (pool_.created() > most && make_room(pool_.created() - most, patience));
  publish_stats();
  return pool_.created() <= most;
}

}  // namespace tidepool::runtime
