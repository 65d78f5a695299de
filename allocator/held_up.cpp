// The part of Residency that tells blocks which can leave now from those that wait for work of the program.
// That work may never end by itself: the thread that is to see to it can be the one which needs room. Runs in
// the slow path only, with the turnstile held.

#include <algorithm>
#include <utility>

#include "allocator/residency.h"
#include "allocator/wait_clock.h"

namespace tidepool::runtime {

// One that has only to be ended; the oldest that has passed; else the oldest that waits for no work of the
// program; else the oldest.
std::deque<Eviction>::iterator Residency::next_to_finish() noexcept {
  const auto find = [&](auto&& is) { return std::find_if(evictions_.begin(), evictions_.end(), is); };
  auto next = find([](const Eviction& one) { return one.step == Step::kUnchanged; });
  if (next != evictions_.end()) return next;
  next = find([&](const Eviction& one) {
    return (one.step != Step::kNothing || is_idle(arena_.block(one.id))) && has_passed(one);
  });
  if (next != evictions_.end()) return next;
  next = find(may_be_waited_for);
  return next != evictions_.end() ? next : evictions_.begin();
}

// All that is under way comes after work of the program that does not end in time.
bool Residency::are_held_up(Nanos patience) noexcept {
  act_on_answers();
  if (evictions_.empty() || std::any_of(evictions_.begin(), evictions_.end(), may_be_waited_for))
    return false;
  const Eviction& oldest = evictions_.front();
  const Block& block = arena_.block(oldest.id);
  if (oldest.step == Step::kNothing && block.used_widely.load(std::memory_order_acquire)) return false;
  const auto waiting_for = std::pair(oldest.id, oldest.word);
  if (std::exchange(held_up_, waiting_for) != waiting_for) {
    patience = kUsePatience;
    if (!streams_.passed(oldest.copied)) count_wait_for_copy_out();
  }
  const Nanos deadline = monotonic_now() + patience;
  const WaitClock clock(Metric::wait_copy_out_ns_total);
  Status status = streams_.wait_host_until(oldest.copied, deadline);
  if (status.ok()) status = streams_.wait_host_until(questions_.reading(oldest.id), deadline);
  if (oldest.step != Step::kNothing) return status == kNotReady;
  for (const auto& use : block.uses) {
    if (!status.ok()) break;
    status = streams_.wait_host_until(Use::from_raw(use.load(std::memory_order_acquire)), deadline);
  }
  return status == kNotReady;
}

// What is not known to have passed, as no mark covers it, may be soon: StreamTable::make_marks().
bool Residency::is_idle_or_marked(const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return false;
  return std::all_of(block.uses.begin(), block.uses.end(), [&](const auto& use) {
    return streams_.passed_or_wanted(Use::from_raw(use.load(std::memory_order_acquire)));
  });
}

}  // namespace tidepool::runtime
