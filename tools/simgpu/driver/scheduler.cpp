#include "tools/simgpu/driver/scheduler.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/execute.h"
#include "tools/simgpu/driver/foreign.h"
#include "tools/simgpu/driver/ledger.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kNone = 0;  ///< no stream has this id

}  // namespace

Scheduler::Scheduler(Driver& driver, const MachineConfig& config, Ledger& ledger)
    : driver_(driver),
      device_mutex_(driver.mutex),
      ledger_(ledger),
      host_thread_(driver.mutex),
      schedule_(config.schedule),
      patience_(config.patience_ms),
      random_(config.seed) {}

void Scheduler::add_legacy_waits(const std::shared_ptr<Stream>& stream, Operation& operation) const {
  if (!stream->blocking) return;
  for (const std::shared_ptr<Stream>& other : busy_) {
    if (other == stream || other->context != stream->context || !other->blocking) continue;
    if (stream->legacy || other->legacy) operation.waits.push_back(Wait{other, other->enqueued});
  }
}

std::uint64_t Scheduler::enqueue(const std::shared_ptr<Stream>& stream, Operation&& operation) {
  while (stream->queue.full()) step_toward(stream, stream->completed + 1);
  prepare(operation);
  operation.call = new_call();
  ledger_.enqueue(stream, operation);
  add_legacy_waits(stream, operation);
  stream->queue.push(std::move(operation));
  if (!stream->listed) {
    stream->listed = true;
    busy_.push_back(stream);
  }
  const std::uint64_t ticket = ++stream->enqueued;
  ReportPage& report = page();
  if (stream->queue.size() > report.longest_queue.load(std::memory_order_relaxed)) {
    report.longest_queue.store(stream->queue.size(), std::memory_order_relaxed);
  }
  if (schedule_ == Schedule::kInOrder) run_everything_ready();
  return ticket;
}

std::uint64_t Scheduler::oldest_call() const {
  std::uint64_t oldest = calls_;
  for (const std::shared_ptr<Stream>& stream : busy_) {
    if (!stream->queue.empty()) oldest = std::min(oldest, stream->queue.front().call);
  }
  return oldest;
}

bool Scheduler::ready(Stream& stream) const {
  if (stream.running || stream.queue.empty()) return false;
  const Operation& next = stream.queue.front();
  if (next.until && !met(driver_, *stream.context, *next.until)) return false;
  if (host_thread_.busy() && std::holds_alternative<HostCall>(next.work)) return false;
  const std::vector<Wait>& waits = next.waits;
  return std::all_of(waits.begin(), waits.end(),
                     [](const Wait& wait) { return wait.stream->completed >= wait.ticket; });
}

void Scheduler::unlist_if_empty(Stream& stream) {
  if (!stream.listed || stream.running || !stream.queue.empty()) return;
  stream.listed = false;
  const auto it = std::find_if(busy_.begin(), busy_.end(), [&](const auto& s) { return s.get() == &stream; });
  if (!stream.unseen && stream.host_saw < stream.completed) {
    if (unseen_.size() >= sweep_unseen_at_) sweep_unseen();
    stream.unseen = true;
    unseen_.push_back(*it);
  }
  busy_.erase(it);
}

/// Forgets streams that a host has waited for by now, and those that nobody can name any more.
void Scheduler::sweep_unseen() {
  std::erase_if(unseen_, [](const std::shared_ptr<Stream>& stream) {
    if (stream->host_saw < stream->completed && stream.use_count() > 1) return false;
    stream->unseen = false;
    return true;
  });
  sweep_unseen_at_ = 2 * unseen_.size() + 64;
}

void Scheduler::run_first(const std::shared_ptr<Stream>& stream) {
  Operation operation = stream->queue.pop();
  const std::uint64_t ticket = stream->completed + 1;
  if (const auto* call = std::get_if<HostCall>(&operation.work)) {
    stream->running = true;
    ledger_.host_can_see(*stream, ticket);
    host_thread_.run(*call, [this, stream, ticket] {
      stream->running = false;
      count_done(*stream, ticket);
      unlist_if_empty(*stream);
    });
    // So what follows has a fixed order, unless the function waits for this thread.
    return host_thread_.wait(patience_);
  }
  const auto* write = std::get_if<ValueWrite>(&operation.work);
  if (write != nullptr && !driver_.is_device_address(write->address)) {
    ledger_.host_can_see(*stream, ticket);
  }
  const bool ok = execute(*stream, operation);
  count_done(*stream, ticket);
  if (!ok) discard(stream->context);
  unlist_if_empty(*stream);
}

void Scheduler::count_done(Stream& stream, std::uint64_t ticket) {
  stream.completed = std::max(stream.completed, ticket);
  ledger_.completed(stream, stream.completed);
  add(page().operations_executed);
}

void Scheduler::step_toward(const std::shared_ptr<Stream>& stream, std::uint64_t ticket, Blocking blocking) {
  if (stream->completed >= ticket) return;
  const auto wait_for_host_function = [&] {
    if (blocking == Blocking::kAllowed) host_thread_.wait(std::nullopt);
  };
  std::shared_ptr<Stream> at = stream;
  for (;;) {
    if (at->running) return wait_for_host_function();
    // Waits only ever point to work that was queued earlier, so this ends.
    const Wait* blocked_by = nullptr;
    std::uint64_t seen = 0;
    for (const Wait& wait : at->queue.front().waits) {
      if (wait.stream->completed < wait.ticket && random_.one_in(++seen)) blocked_by = &wait;
    }
    if (blocked_by == nullptr && at->queue.front().until &&
        !met(driver_, *at->context, *at->queue.front().until)) {
      if (!run_some_ready(kNone)) wait_for_others(driver_);
      return;
    }
    if (blocked_by == nullptr) {
      const bool host = std::holds_alternative<HostCall>(at->queue.front().work);
      return host && host_thread_.busy() ? wait_for_host_function() : run_first(at);
    }
    at = blocked_by->stream;
  }
}

bool Scheduler::run_some_ready(std::uint64_t except) {
  candidates_.clear();
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    if (busy_[i]->id != except && ready(*busy_[i])) candidates_.push_back(i);
  }
  if (candidates_.empty()) return false;
  const std::shared_ptr<Stream> chosen = busy_[candidates_[random_.below(candidates_.size())]];
  run_first(chosen);
  return true;
}

void Scheduler::change_mood() {
  mood_ = static_cast<Mood>(random_.below(4));
  // Mostly short, now and then long enough that a whole iteration of a program is still queued at its end.
  mood_left_ = 1 + random_.below(std::uint64_t{2} << random_.below(11));
  starved_ = busy_.empty() ? 0 : busy_[random_.below(busy_.size())]->id;
}

void Scheduler::run_everything_ready() {
  while (run_some_ready(kNone)) {
  }
}

void Scheduler::breathe() {
  if (busy_.empty()) return;
  if (schedule_ == Schedule::kInOrder) return run_everything_ready();
  if (mood_left_-- == 0) change_mood();
  switch (mood_) {
    case Mood::kNothing:
      return;
    case Mood::kEverything:
      return run_everything_ready();
    case Mood::kALittle:
      for (std::uint64_t n = random_.below(4); n > 0; --n) run_some_ready(kNone);
      return;
    case Mood::kAllButOne:
      while (run_some_ready(starved_)) {
      }
      return;
  }
}

void Scheduler::complete(const std::shared_ptr<Stream>& stream, std::uint64_t ticket) {
  while (stream->completed < ticket) {
    if (schedule_ == Schedule::kAdversarial && random_.one_in(4)) run_some_ready(kNone);
    step_toward(stream, ticket);
  }
}

void Scheduler::run_until(const std::shared_ptr<Stream>& stream, std::uint64_t ticket) {
  complete(stream, ticket);
  ledger_.host_waited(*stream, ticket);
  stream->host_saw = std::max(stream->host_saw, ticket);
}

std::shared_ptr<Stream> Scheduler::any_busy(const Context* context) {
  candidates_.clear();
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    if (context == nullptr || busy_[i]->context == context) candidates_.push_back(i);
  }
  return candidates_.empty() ? nullptr : busy_[candidates_[random_.below(candidates_.size())]];
}

void Scheduler::run_all() {
  while (const std::shared_ptr<Stream> chosen = any_busy(nullptr)) step_toward(chosen, chosen->completed + 1);
}

void Scheduler::drain(const Context* context) {
  // What has run meanwhile is seen at the end, here and in the ledger: a host function may let other threads
  // go on.
  while (const std::shared_ptr<Stream> chosen = any_busy(context)) step_toward(chosen, chosen->completed + 1);
  std::erase_if(unseen_, [&](const std::shared_ptr<Stream>& stream) {
    if (context != nullptr && stream->context != context) return false;
    stream->host_saw = stream->completed;
    stream->unseen = false;
    return true;
  });
  ledger_.host_waited_all(context);
}

bool Scheduler::poll(const std::shared_ptr<Stream>& stream, std::uint64_t ticket) {
  if (stream->completed < ticket && random_.one_in(4)) step_toward(stream, ticket, Blocking::kRefused);
  if (stream->completed < ticket) return false;
  ledger_.host_waited(*stream, ticket);
  stream->host_saw = std::max(stream->host_saw, ticket);
  return true;
}

void Scheduler::discard(const Context* context) {
  std::vector<HostCall> to_be_told;
  for (std::size_t i = busy_.size(); i-- > 0;) {
    const std::shared_ptr<Stream> stream = busy_[i];
    if (stream->context != context) continue;
    add(page().operations_dropped, stream->queue.size());
    while (!stream->queue.empty()) {
      const Operation operation = stream->queue.pop();
      const auto* call = std::get_if<HostCall>(&operation.work);
      if (call != nullptr && call->discarded != nullptr) to_be_told.push_back(*call);
      const auto* mark = std::get_if<Mark>(&operation.work);
      if (mark != nullptr && mark->record->shared != nullptr) {
        mark->record->shared->complete(mark->record->number);
      }
    }
    stream->completed = stream->enqueued;
    unlist_if_empty(*stream);
  }
  if (to_be_told.empty()) return;
  device_mutex_.unlock();
  for (const HostCall& call : to_be_told) run_host_function({call.discarded, call.argument});
  device_mutex_.lock();
}

}  // namespace simgpu
