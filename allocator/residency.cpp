#include "allocator/residency.h"

#include <algorithm>

#include "allocator/failed_call.h"
#include "allocator/recorder.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

Residency::Residency(Device& device, Arena& arena, HandlePool& pool, HostArena& host, StreamTable& streams,
                     DeviceSums& sums, CheckLevel check) noexcept
    : device_(device),
      arena_(arena),
      pool_(pool),
      host_(host),
      streams_(streams),
      sums_(sums),
      engine_(device, streams),
      copies_(arena, host),
      questions_(device, streams),
      check_(check),
      freed_(arena, streams) {}

Residency::~Residency() {
  finish_all_evictions();
  // What stays mapped now is lost to a program that goes on after a reset.
  constexpr int kRounds = 4;
  bool is_left = true;
  for (int round = 0; is_left && round < kRounds; ++round) {
    is_left = false;
    for (BlockId id = 1; id < arena_.end_id(); ++id) is_left |= !unmap_extents(id).ok();
  }
}

Status Residency::open() noexcept {
  return engine_.open();
}

Status Residency::make_resident(std::span<const BlockId> set, Stream* stream, WorkName what) noexcept {
  StatsPage::instance().add(Metric::slow_path_total, 1);
  const WaitClock clock(Metric::wait_moving_ns_total);
  Copies copies;
  pin(set);
  Status status = kOk;
  if (!usable_now(set, &copies)) {
    // Whoever waits for a turn holds no pins: the owner may need just these blocks' memory.
    unpin(set);
    const TurnstileGuard turn(turnstile_);
    pin(set);
    waited_for_copy_out_ = false;
    settle_incoming();
    sweep_evictions();
    // Again where a stale word's block was freed and its id given to a new allocation meanwhile.
    do {
      status = bring_all(set, what);
    } while (status.ok() && !usable_now(set, &copies));
    if (waited_for_copy_out_) StatsPage::instance().add(Metric::copy_out_waiters_total, 1);
    publish_stats();
  }
  if (status.ok()) status = order_after(stream, copies);
  if (!status.ok()) unpin(set);
  emit<Ev::wait>(clock.so_far());
  return status;
}

// Pins first, states second; an evictor changes the state first and reads pins second (both sequentially
// consistent), so one of the two notices the other.
void Residency::pin(std::span<const BlockId> set) noexcept {
  for (const BlockId id : set) arena_.block(id).pins.fetch_add(1, std::memory_order_seq_cst);
}

void Residency::unpin(std::span<const BlockId> set) noexcept {
  for (const BlockId id : set) arena_.block(id).pins.fetch_sub(1, std::memory_order_release);
}

// Pinned blocks that are resident, or become so by cancelling their eviction, need no turn. `copies`: those
// that the caller has to be ordered after.
bool Residency::usable_now(std::span<const BlockId> set, Copies* copies) noexcept {
  for (const BlockId id : set) {
    Block& block = arena_.block(id);
    for (bool settled = false; !settled;) {
      const StateWord word = block.load();
      switch (word.state()) {
        case BlockState::kResident:
        case BlockState::kFreed:  // a stale word in the arguments; there is nothing to protect
          settled = true;
          break;
        case BlockState::kChosen:
        case BlockState::kOutgoing: {
          const Use copy = Use::from_raw(block.outgoing.load(std::memory_order_acquire));
          const Use hash = Use::from_raw(block.hashing.load(std::memory_order_acquire));
          const bool is_whole =
              word.state() == BlockState::kOutgoing && streams_.passed(copy) && streams_.passed(hash);
          if (!block.move(word, BlockState::kResident)) break;
          if (is_whole) block.taken_whole.store(word.raw(), std::memory_order_release);
          StatsPage::instance().add(Metric::evictions_cancelled_total, 1);
          if (word.state() == BlockState::kOutgoing) {
            copies->note_outgoing(copy);
            Recorder::move(arena_.recorded(id), plan::MoveKind::kCancel, block.requested());
          }
          settled = true;
          break;
        }
        case BlockState::kIncoming: {
          const Use use = Use::from_raw(block.incoming.load(std::memory_order_acquire));
          // The host slot stays on the list of incoming copies until the next turn; the state need not.
          if (streams_.passed(use)) {
            settled = block.move(word, BlockState::kResident);
          } else {
            copies->note_incoming(use);
            settled = true;
          }
          break;
        }
        case BlockState::kReserved:
        case BlockState::kBinding:
        case BlockState::kStarting:
        case BlockState::kUnmapping:
        case BlockState::kOut:
        case BlockState::kParked:
          return false;
      }
    }
  }
  return true;
}

// Where there is no stream to order, or the driver would not, the host waits instead.
Status Residency::order_after(Stream* stream, const Copies& copies) noexcept {
  Status status = kOk;
  if (copies.incoming &&
      (stream == nullptr || !streams_.order_after_incoming(*stream, copies.incoming).ok())) {
    status = wait_host(copies.incoming, Metric::wait_copy_in_ns_total);
  }
  for (const Use copy : copies.outgoing) {
    if (!status.ok()) return status;
    if (!copy || (stream != nullptr && streams_.order(*stream, copy).ok())) continue;
    status = wait_host(copy, Metric::wait_copy_out_ns_total);
  }
  return status;
}

Status Residency::bring_all(std::span<const BlockId> set, WorkName what) noexcept {
  wanted_.assign(set.begin(), set.end());
  std::sort(wanted_.begin(), wanted_.end());
  wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());

  Bytes whole;
  Bytes absent;
  Bytes staying;  // of the set; what else stays is in the set's way
  Bytes moving;   // of the set, when this is over: what is brought to stay does not
  Bytes in_the_way;
  const auto measure = [&] {
    whole = absent = staying = moving = Bytes();
    const std::lock_guard guard(kept_lock_);
    for (const BlockId id : wanted_) {
      const Block& block = arena_.block(id);
      const BlockState state = block.load().state();
      if (state == BlockState::kFreed) continue;
      whole += block.span;
      if (block.kept.load(std::memory_order_relaxed)) staying += block.span;
      if (block.counted.load(std::memory_order_relaxed)) moving += block.span;
      if (state == BlockState::kReserved || state == BlockState::kOut) absent += block.span - block.backed();
    }
    in_the_way = kept() - staying;
  };
  const bool is_fitting = fits_without_unneeded([&] {
    measure();
    return fits(whole + in_the_way);
  });
  if (!is_fitting) return refuse_set(what, whole, in_the_way);
  if (moving.count() > largest_set_.load(std::memory_order_relaxed))
    largest_set_.store(moving.count(), std::memory_order_relaxed);

  // All copies out start before the first copy in, so that both directions run at once. Those of the next
  // turn too: then the link has work while this turn waits for the first one, and unmaps and maps.
  begin_turn();
  const bool is_short = absent > pool_.available();
  if (absent > Bytes()) start_leaving(absent + ahead());
  Status status = kOk;
  for (const BlockId id : wanted_) {
    status = bring(id, what);
    if (!status.ok()) break;
  }
  if (absent > Bytes()) pressure_ = is_short ? kPressure : std::max(pressure_ - 1, 0);
  // A moving average over a few turns.
  brought_ = Bytes((brought_.count() * 3 + absent.count()) / 4);
  if (status.ok()) start_leaving(ahead());
  if (check_ != CheckLevel::kOff) {
    const char* const broken = check_ == CheckLevel::kCheap ? check_turn() : check_locked();
    if (broken != nullptr) report<Msg::TP3002>(broken);
  }
  return status;
}

// A driver call that fails once is tried again; whatever it was, the block is as it was before.
Status Residency::bring(BlockId id, WorkName what) noexcept {
  Block& block = arena_.block(id);
  Status status = kOk;
  for (int attempt = 0; attempt < kAttempts;) {
    const StateWord word = block.load();
    const BlockState before = word.state();
    if (before == BlockState::kParked) {
      status = unpark(block, word);
      if (!status.ok()) ++attempt;
      continue;
    }
    if (before != BlockState::kReserved && before != BlockState::kOut) return kOk;
    if (!block.move(word, BlockState::kBinding)) continue;  // freed this moment
    const bool is_checked = before == BlockState::kOut && check_ == CheckLevel::kFull;
    status = is_checked ? verify_out(id, block, what) : kOk;
    if (status.ok()) status = acquire(block);
    if (!status.ok()) {
      block.settle(before);
      return status;
    }
    status = map_extents(block);
    if (!status.ok()) (void)unmap_extents(id);
    if (status.ok() && before == BlockState::kOut) {
      status = copy_in(id, block);
      if (status.ok()) return kOk;
    }
    block.settle(status.ok() ? BlockState::kResident : before);
    if (status.ok()) return kOk;
    ++attempt;
  }
  return give_up(block.span, status);
}

// On failure some of it may be mapped: the caller takes that back.
Status Residency::map_extents(Block& block) noexcept {
  const WaitClock clock(Metric::wait_mapping_ns_total);
  Status status = kOk;
  const char* call = "cuMemMap";
  DevicePtr at = block.base;
  for (Extent& extent : block.extents) {
    if (!extent.mapped) status = device_.map(at, extent.size, extent.handle);
    if (!status.ok()) break;
    extent.mapped = true;
    at = at + extent.size;
  }
  if (status.ok()) {
    call = "cuMemSetAccess";
    status = device_.set_access(block.base, block.span);
  }
  if (!status.ok()) {
    report_failed_call(call, status);
    return status;
  }
  for (Extent& extent : block.extents) extent.open = true;
  return kOk;
}

// Takes the memory away from the block, last extent first, and gives it to the pool. An extent whose unmap
// fails stays, mapped, and with it all before it: still this block's memory, which its next binding
// completes, unless take_left_behind() has it before.
Status Residency::unmap_extents(BlockId id) noexcept {
  const WaitClock clock(Metric::wait_mapping_ns_total);
  Block& block = arena_.block(id);
  std::vector<DevicePtr> at;
  DevicePtr next = block.base;
  for (const Extent& extent : block.extents) {
    at.push_back(next);
    next = next + extent.size;
  }
  while (!block.extents.empty()) {
    const Extent extent = block.extents.back();
    if (extent.mapped) {
      const Status status = device_.unmap(at[block.extents.size() - 1], extent.size);
      if (!status.ok()) {
        report_failed_call("cuMemUnmap", status);
        if (std::find(left_behind_.begin(), left_behind_.end(), id) == left_behind_.end())
          left_behind_.push_back(id);
        return status;
      }
    }
    block.extents.pop_back();
    pool_.put({extent.handle, extent.size});
  }
  return kOk;
}

Status Residency::copy_in(BlockId id, Block& block) noexcept {
  Use started;
  const DeviceResult<Use> copied = engine_.copy_in(block, block.host, &started);
  if (!copied.ok()) {
    report_failed_call("cuMemcpyHtoDAsync", copied.error());
    // Pieces that did start still write here: they must pass before the memory serves another block.
    if (wait_host(started, Metric::wait_copy_in_ns_total).ok()) (void)unmap_extents(id);
    return copied.error();
  }
  Recorder::move(arena_.recorded(id), plan::MoveKind::kIn, block.requested());
  Use last = *copied;
  Arrival arrival;
  if (check_ == CheckLevel::kFull) arrival = look_behind_copy_in(id, block, &last);
  block.set_only_use(last);
  block.incoming.store(last.raw(), std::memory_order_release);
  // The list first, then the state: once it is published the block may be freed at any time, and then the
  // list must hold the word that it had.
  const StateWord arriving = block.load().next(BlockState::kIncoming);
  incoming_.push_back({id, arriving, std::move(block.host), last, std::move(arrival)});
  block.host.clear();
  block.word.store(arriving.raw(), std::memory_order_seq_cst);
  return kOk;
}

void Residency::settle_incoming() noexcept {
  while (!incoming_.empty() && streams_.passed(incoming_.front().copied)) {
    Incoming& done = incoming_.front();
    if (!done.arrival.seen.empty()) verify_arrival(done.arrival);
    // The slot stays the block's copy, unless it has left again, or was freed: then the word has moved on.
    Block& block = arena_.block(done.id);
    if (block.move(done.word, BlockState::kResident) ||
        block.load() == done.word.next(BlockState::kResident)) {
      copies_.keep(done.id, std::move(done.slot));
    } else {
      host_.release(done.slot);
    }
    incoming_.pop_front();
  }
  while (!lost_.empty() && streams_.passed(lost_.front().copied)) {
    host_.release(lost_.front().slot);
    lost_.pop_front();
  }
  if (frees_seen_ == freed_.added()) return;
  frees_seen_ = freed_.added();
  copies_.sweep();
}

// False when there is nothing to wait for or the device answered with an error.
bool Residency::wait_for_incoming() noexcept {
  if (incoming_.empty()) return false;
  const Status status = wait_host(incoming_.front().copied, Metric::wait_copy_in_ns_total);
  if (!status.ok()) {
    device_error_ = status;
    return false;
  }
  settle_incoming();
  return true;
}

bool Residency::fits(Bytes needed) noexcept {
  return needed <= pool_.limit() || (grow_ != nullptr && grow_(keeper_, needed));
}

void Residency::publish_stats() noexcept {
  sums_.set(Metric::device_resident_bytes, pool_.created().count(), Metric::device_resident_bytes_peak);
  publish_kept();
  sums_.set(Metric::host_bytes, host_.used().count(), Metric::host_bytes_peak);
  sums_.set(Metric::device_handles, pool_.handles());
  sums_.set(Metric::host_pinned_bytes, host_.pinned().count());
  sums_.set(Metric::host_holes, host_.holes());
  sums_.set(Metric::block_ids, arena_.end_id());
  sums_.set(Metric::streams_known, streams_.known());
}

}  // namespace tidepool::runtime
