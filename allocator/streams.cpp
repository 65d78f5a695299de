#include "allocator/streams.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "allocator/support/message.h"

namespace tidepool::runtime {
namespace {

constexpr Nanos kBriefly{200'000};
constexpr std::size_t kMarksToLookAt = 4;

std::atomic<std::uint64_t> g_tables{0};

void pause_between_queries(int round) noexcept {
  if (round < 64) {
    ::sched_yield();
    return;
  }
  const timespec nap{0, round < 1024 ? 20'000 : 200'000};
  ::nanosleep(&nap, nullptr);
}

// A thread can be stuck in the driver with a stream's lock: its queue is full, and what makes room may be the
// work that the caller is about to enqueue elsewhere. So whoever only wants to know something does not wait
// for that; a poll is over in much less time. Not locked: nothing is known now.
std::unique_lock<std::mutex> lock_briefly(std::mutex& lock) noexcept {
  std::unique_lock guard(lock, std::try_to_lock);
  if (guard.owns_lock()) [[likely]]
    return guard;
  const Nanos deadline = monotonic_now() + kBriefly;
  while (!guard.try_lock() && monotonic_now() < deadline) ::sched_yield();
  return guard;
}

}  // namespace

std::atomic<bool> blocking_streams_exist{false};

constinit thread_local StreamTable::Found StreamTable::t_found
    __attribute__((tls_model("initial-exec"))) = {};

void report_long_wait(LongWait& wait, Nanos since) noexcept {
  const Nanos waited = monotonic_now() - since;
  if (!wait.is_due(waited)) return;
  char text[32];
  report<Msg::TP2003>(format_duration(text, sizeof text, waited));
}

StreamTable::StreamTable(Device& device) noexcept
    : device_(device), id_(g_tables.fetch_add(1, std::memory_order_relaxed) + 1) {
  entries_.push_back(nullptr);
}

StreamTable::~StreamTable() {
  for (Stream* stream : entries_) {
    if (stream == nullptr) continue;
    drop_marks(*stream);
    for (const EventHandle event : stream->spare_events_) (void)device_.destroy_event(event);
    delete stream;
  }
  for (const EventHandle event : spare_events_) (void)device_.destroy_event(event);
}

// A mark is a hint here, except where nobody can make it later. A stream whose lock is taken is being marked
// or polled right now.
void StreamTable::mark_now(Stream& stream, bool must) noexcept {
  std::unique_lock guard(stream.lock_, std::defer_lock);
  if (must) {
    guard.lock();
  } else if (!guard.try_lock()) {
    return;
  }
  stream.unmarked_.store(0, std::memory_order_relaxed);
  (void)mark_locked(stream);
}

Status StreamTable::mark(Stream& stream) noexcept {
  const std::lock_guard guard(stream.lock_);
  return mark_locked(stream);
}

// A stream whose lock is taken for long is being marked.
void StreamTable::mark_all() noexcept {
  for (std::size_t i = 1; i < kMaxStreams; ++i) {
    Stream* const stream = by_index_[i].load(std::memory_order_acquire);
    if (stream == nullptr) break;
    if (stream->key_.load(std::memory_order_relaxed) == 0) continue;
    const auto guard = lock_briefly(stream->lock_);
    if (guard.owns_lock()) (void)mark_locked(*stream);
  }
}

void StreamTable::make_wanted_marks() noexcept {
  for (std::size_t i = 1; i < kMaxStreams; ++i) {
    Stream* const stream = by_index_[i].load(std::memory_order_acquire);
    if (stream == nullptr) break;
    if (!stream->wants_mark_.load(std::memory_order_relaxed)) continue;
    if (!stream->wants_mark_.exchange(false, std::memory_order_acq_rel)) continue;
    const auto guard = lock_briefly(stream->lock_);
    if (guard.owns_lock()) (void)mark_locked(*stream);
  }
}

Status StreamTable::wait_device() noexcept {
  const Status status = synchronize();
  const bool is_enough = !has_strangers_.load(std::memory_order_acquire);
  return is_capture_error(status) && is_enough ? wait_all() : status;
}

Status StreamTable::wait_all() noexcept {
  std::vector<Use> newest;
  {
    const std::lock_guard guard(lock_);
    for (const Stream* stream : entries_) {
      if (stream == nullptr) continue;
      const std::uint64_t drawn = stream->enqueued_.load(std::memory_order_acquire);
      if (drawn != 0) newest.emplace_back(stream->index_, drawn);
    }
  }
  Status status = kOk;
  for (const Use use : newest) {
    if (status.ok()) status = wait_host(use);
  }
  return status;
}

Status StreamTable::pass_all_locked(Stream& stream) noexcept {
  const std::uint64_t drawn = stream.cover();
  if (const Status status = synchronize(*stream.device_); !status.ok()) return status;
  std::uint64_t seen = stream.completed_.load(std::memory_order_relaxed);
  while (seen < drawn && !stream.completed_.compare_exchange_weak(seen, drawn, std::memory_order_acq_rel)) {
  }
  return kOk;
}

Status StreamTable::mark_locked(Stream& stream) noexcept {
  // Read first, record second: the event covers at least what was drawn by now.
  const std::uint64_t covered = stream.cover();
  if (covered <= stream.completed_.load(std::memory_order_relaxed)) return kOk;
  if (!stream.marks_.empty() && stream.marks_.back().ticket >= covered) return kOk;
  if (!can_record(stream)) return kOk;
  if (stream.marks_.full()) {
    // Half of them at one question; where the device is far behind, one.
    if (const Status status = poll_locked(stream, stream.marks_[MarkRing::kRoom / 2].ticket); !status.ok())
      return status;
  }
  if (stream.marks_.full()) {
    if (const Status status = poll_locked(stream, stream.marks_.front().ticket); !status.ok()) return status;
  }
  if (stream.marks_.full()) {
    // Recording again moves the newest mark forward: later, but never too early.
    const Status status = stream.device_->record(stream.marks_.back().event, stream.handle_);
    if (status.ok()) stream.marks_.back().ticket = covered;
    return status;
  }
  // Rather an event that has passed than a new one.
  if (stream.marks_.size() >= kMarksToLookAt && stream.spare_events_.empty() && !is_peers(stream))
    (void)poll_locked(stream, stream.marks_[stream.marks_.size() / 2].ticket);
  const DeviceResult<EventHandle> event = take_event(stream);
  if (!event.ok()) return event.error();
  if (const Status status = stream.device_->record(*event, stream.handle_); !status.ok()) {
    give_event(stream, *event);
    return status;
  }
  stream.marks_.push_back({covered, *event});
  return kOk;
}

bool StreamTable::can_record(const Stream& stream) noexcept {
  const std::uint64_t key = stream.key_.load(std::memory_order_acquire);
  constexpr std::uint64_t kTag = (std::uint64_t{1} << 48) - 1;
  return key != 0 && (!stream.mark_each_ || ((key ^ key_of(kPerThreadStream)) & kTag) == 0);
}

Status StreamTable::poll_locked(Stream& stream, std::uint64_t enough) noexcept {
  while (stream.completed_.load(std::memory_order_relaxed) < enough) {
    const MarkRing::Mark* const telling = stream.marks_.covering(enough);
    if (telling == nullptr) return kOk;
    const std::uint64_t told = telling->ticket;
    Status status = stream.device_->query(telling->event);
    // An error here is an error of the device, which every later call repeats. One that does not repeat is
    // not.
    if (!status.ok() && status != kNotReady) status = stream.device_->query(telling->event);
    if (status == kNotReady) return kOk;
    if (!status.ok() && is_peers(stream)) {
      status = pass_all_locked(stream);
      if (status.ok()) drop_marks(stream);
    }
    if (!status.ok() || stream.marks_.empty()) return status;
    // Waiting for the whole device may have carried it further already.
    if (stream.completed_.load(std::memory_order_relaxed) < told) {
      stream.completed_.store(told, std::memory_order_release);
    }
    // Those before it have passed as well.
    while (!stream.marks_.empty() && stream.marks_.front().ticket <= told) {
      const EventHandle event = stream.marks_.front().event;
      stream.marks_.pop_front();
      give_event(stream, event);
    }
  }
  return kOk;
}

void StreamTable::drop_marks(Stream& stream) noexcept {
  for (; !stream.marks_.empty(); stream.marks_.pop_front()) {
    (void)stream.device_->destroy_event(stream.marks_.front().event);
  }
}

bool StreamTable::passed(Use use) noexcept {
  if (!use) return true;
  Stream& stream = *by_index_[use.stream()].load(std::memory_order_acquire);
  if (stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return true;
  const auto guard = lock_briefly(stream.lock_);
  if (guard.owns_lock() && !poll_locked(stream, use.ticket()).ok()) return false;
  return stream.completed_.load(std::memory_order_acquire) >= use.ticket();
}

bool StreamTable::passed_or_wanted(Use use) noexcept {
  if (!use) return true;
  Stream& stream = *by_index_[use.stream()].load(std::memory_order_acquire);
  if (stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return true;
  const auto guard = lock_briefly(stream.lock_);
  if (!guard.owns_lock() || !poll_locked(stream, use.ticket()).ok()) return false;
  if (stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return true;
  if (stream.marks_.covering(use.ticket()) == nullptr) {
    stream.wants_mark_.store(true, std::memory_order_release);
    marks_wanted_.store(true, std::memory_order_release);
  }
  return false;
}

Status StreamTable::order(Stream& waiter, Use use) noexcept {
  if (!use) return kOk;
  Stream& stream = *by_index_[use.stream()].load(std::memory_order_acquire);
  if (&stream == &waiter || stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return kOk;
  const auto guard = lock_briefly(stream.lock_);
  if (!guard.owns_lock()) return kNotReady;
  const MarkRing::Mark* mark = stream.marks_.covering(use.ticket());
  if (mark == nullptr) {
    if (const Status status = mark_locked(stream); !status.ok()) return status;
    if (stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return kOk;
    mark = stream.marks_.covering(use.ticket());
    // A stream that is gone, or another thread's own: nobody can mark it any more.
    if (mark == nullptr) return pass_all_locked(stream);
    // Once it has passed a peer's event goes.
    if (is_peers(stream)) return waiter.device_->wait(waiter.handle_, mark->event);
  }
  return waiter.device_->wait(waiter.handle_, mark->event);
}

Status StreamTable::order_after_uses(Stream& waiter, const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return wait_device();
  for (const auto& raw : block.uses) {
    const Use use = Use::from_raw(raw.load(std::memory_order_acquire));
    if (const Status status = order(waiter, use); !status.ok()) return status;
  }
  return kOk;
}

Status StreamTable::order_after_incoming(Stream& waiter, Use incoming) noexcept {
  if (waiter.ordered_after_.load(std::memory_order_acquire) >= incoming.ticket()) return kOk;
  const Status status = order(waiter, incoming);
  if (!status.ok()) return status;
  std::uint64_t seen = waiter.ordered_after_.load(std::memory_order_relaxed);
  while (seen < incoming.ticket() &&
         !waiter.ordered_after_.compare_exchange_weak(seen, incoming.ticket(), std::memory_order_acq_rel)) {
  }
  return kOk;
}

Status StreamTable::wait_host_until(Use use, Nanos deadline) noexcept {
  if (!use) return kOk;
  Stream& stream = *by_index_[use.stream()].load(std::memory_order_acquire);
  const Nanos start = monotonic_now();
  LongWait long_wait;
  for (int round = 0;; ++round) {
    if (const auto guard = lock_briefly(stream.lock_); guard.owns_lock()) {
      if (const Status status = poll_locked(stream, use.ticket()); !status.ok()) return status;
      if (stream.completed_.load(std::memory_order_acquire) >= use.ticket()) return kOk;
      if (const Status status = mark_locked(stream); !status.ok()) return status;
      if (stream.marks_.covering(use.ticket()) == nullptr) {
        return deadline == kNever ? pass_all_locked(stream) : kNotReady;
      }
    }
    if (monotonic_now() > deadline) return kNotReady;
    pause_between_queries(round);
    report_long_wait(long_wait, start);
  }
}

}  // namespace tidepool::runtime
