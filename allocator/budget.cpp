// The half of Runtime that keeps the limits: the budget, which may change while the program runs, and the
// memory that others hold on the device.

#include <algorithm>

#include "allocator/runtime.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
namespace {

void say_needed(const Device& device, Bytes asked, Bytes needed, Bytes kept) noexcept {
  report_on<Msg::TP2007>(device.number(), BytesText(asked).c_str(), BytesText(needed).c_str(),
                         BytesText(kept).c_str());
}

/// The words of events.def.
constexpr std::uint64_t kByCommand = 1;
constexpr std::uint64_t kByNeed = 2;

}  // namespace

void Runtime::obey_request() noexcept {
  const NoCancel no_cancel;
  BudgetRequest request;
  BudgetOutcome outcome;
  {
    // Taken with the lock that it is applied with: of two requests the later one has the last word.
    const std::lock_guard guard(requests_lock_);
    request = listener_.take();
    if (!request) return;
    outcome = change_budget(request.amount());
  }
  emit<Ev::budget>(outcome.capacity, device_.total_memory(), outcome.before, kByCommand);
  shrink_to_budget(outcome);
  listener_.answer(request, outcome);
}

BudgetOutcome Runtime::set_budget(Amount budget) noexcept {
  BudgetOutcome outcome;
  {
    const std::lock_guard guard(requests_lock_);
    outcome = change_budget(budget);
  }
  shrink_to_budget(outcome);
  return outcome;
}

// Nobody is in the slow path meanwhile, where a set that was found to fit would fit no longer.
BudgetOutcome Runtime::change_budget(Amount budget) noexcept {
  const Bytes asked = budget.resolve(device_.total_memory());
  BudgetOutcome outcome{Bytes(), capacity(), Bytes(), BudgetLimit::kAsked};
  residency_.between_turns([&] {
    const std::lock_guard guard(limits_lock_);
    budget_ = budget;
    apply_limit();
    most_ = std::max(most_, capacity().count());
    // What is on the device together, and what the host has no room for, as reserve() sees it.
    const Bytes homeless = allocated() + residency_.largest() * 2 - host_.budget();
    const Bytes least = std::max(residency_.least(), homeless);
    const Bytes needed = std::min((outside() + least).round_up(Arena::kChunk), outcome.before);
    if (capacity() > asked) outcome.limit = BudgetLimit::kLeast;
    if (capacity() < asked) outcome.limit = BudgetLimit::kDevice;
    if (needed <= capacity()) return;
    outcome.limit = BudgetLimit::kNeeded;
    budget_ = Amount::bytes(needed);
    apply_limit();
  });
  outcome.capacity = capacity();
  if (outcome.limit == BudgetLimit::kNeeded) say_needed(device_, asked, outcome.capacity, residency_.kept());
  return outcome;
}

// What fitted under a budget that the program had must fit after it was lowered: a program has no way to go
// on after an out-of-memory error that it had no part in.
bool Runtime::grow_limit(Bytes limit) noexcept {
  Bytes before;
  {
    const std::lock_guard guard(limits_lock_);
    const Bytes needed = (outside() + limit).round_up(Arena::kChunk);
    before = capacity();
    if (needed > Bytes(most_)) return false;
    if (needed <= before) return limit <= pool_.limit();
    budget_ = Amount::bytes(needed);
    apply_limit();
    listener_.correct(capacity(), BudgetLimit::kNeeded);
  }
  say_needed(device_, before, capacity(), residency_.kept());
  emit<Ev::budget>(capacity(), device_.total_memory(), before, kByNeed);
  return limit <= pool_.limit();
}

void Runtime::shrink_to_budget(BudgetOutcome& outcome) noexcept {
  if (!keep_limit()) {
    report_on<Msg::TP2006>(device_.number(), BytesText(capacity()).c_str(),
                           BytesText(pool_.created() + outside()).c_str());
  }
  outcome.held = pool_.created() + outside();
}

void Runtime::set_outside(Bytes outside) noexcept {
  const std::lock_guard guard(limits_lock_);
  if (outside == this->outside()) return;
  outside_.store(outside.count(), std::memory_order_relaxed);
  apply_limit();
}

bool Runtime::keep_limit() noexcept {
  if (!pool_.is_over_limit()) return true;
  const bool is_kept = residency_.shrink_to(pool_.limit());
  listener_.correct(pool_.created() + outside());
  return is_kept;
}

bool Runtime::give_back(Bytes size) noexcept {
  const Bytes before = pool_.created();
  const auto is_less = [&] {
    (void)residency_.shrink_to(before - size, true);
    return pool_.created() < before;
  };
  // Or else the program would be refused what it asks the driver for.
  return is_less() || (residency_.let_go_unneeded() && is_less());
}

void Runtime::apply_limit() noexcept {
  Options options = options_;
  options.device_budget = budget_;
  const Bytes capacity = device_capacity_of(options, device_.total_memory());
  capacity_.store(capacity.count(), std::memory_order_relaxed);
  pool_.set_limit(Arena::kChunk * ((capacity - outside()) / Arena::kChunk));
  streams_.expect_evictions(allocated() > pool_.limit());
  sums_.set(Metric::device_capacity_bytes, capacity.count(), Metric::device_capacity_bytes_peak);
}

}  // namespace tidepool::runtime
