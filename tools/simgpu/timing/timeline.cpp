#include "tools/simgpu/timing/timeline.h"

#include <algorithm>

namespace simgpu::timing {

std::shared_ptr<Lane> Timeline::new_lane(std::uint64_t id, std::uint64_t context, LaneKind kind) {
  return std::make_shared<Lane>(id, context, kind);
}

void Timeline::retire(Lane& lane) {
  // A wait for what ended before the host's time holds nobody up: later work is ready no earlier than that.
  while (lane.first_ <= lane.dispatched_ && lane.at(lane.first_).end <= now_) ++lane.first_;
}

void Timeline::forget_idle_lanes() {
  std::erase_if(active_, [this](const std::shared_ptr<Lane>& lane) {
    retire(*lane);
    lane->active_ = !lane->empty();
    return !lane->active_;
  });
  sweep_at_ = 2 * active_.size() + 64;
}

void Timeline::add_after(Lane& lane, std::uint64_t ticket, const After& after) {
  Lane& other = *after.lane;
  if (&other == &lane || after.ticket < other.first_) return;
  Lane::Node& node = lane.at(ticket);
  Lane::Node& awaited = other.at(after.ticket);
  if (after.ticket <= other.dispatched_) {
    node.ready = std::max(node.ready, awaited.end);
  } else {
    ++node.unresolved;
    awaited.waiters.push_back({&lane, ticket});
  }
}

void Timeline::add_legacy_rules(Lane& lane, std::uint64_t ticket) {
  if (lane.kind_ == LaneKind::kNonBlocking) return;
  for (const std::shared_ptr<Lane>& other : active_) {
    if (other.get() == &lane || other->context_ != lane.context_) continue;
    if (lane.kind_ == LaneKind::kLegacy ? other->kind_ == LaneKind::kBlocking
                                        : other->kind_ == LaneKind::kLegacy) {
      add_after(lane, ticket, After{other, other->enqueued_});
    }
  }
}

std::uint64_t Timeline::enqueue(const std::shared_ptr<Lane>& lane, Task&& task,
                                std::span<const After> after) {
  retire(*lane);
  if (lane->size() >= Lane::kLimit) wait(lane, lane->first_);
  if (active_.size() >= sweep_at_) forget_idle_lanes();
  Lane::Node& node = lane->push();
  const std::uint64_t ticket = lane->enqueued_;
  node.task = std::move(task);
  node.ready = now_;
  node.order = ++orders_;
  node.unresolved = 0;
  node.waiters.clear();
  for (const After& one : after) add_after(*lane, ticket, one);
  add_legacy_rules(*lane, ticket);
  if (!lane->active_) {
    lane->active_ = true;
    active_.push_back(lane);
  }
  if (lane->dispatched_ + 1 == ticket) offer_head(*lane);
  advance();
  return ticket;
}

void Timeline::offer_head(Lane& lane) {
  const std::uint64_t ticket = lane.dispatched_ + 1;
  if (ticket > lane.enqueued_) return;
  Lane::Node& node = lane.at(ticket);
  node.ready = std::max(node.ready, lane.last_end_);
  if (node.unresolved == 0) heads_.push(Head{node.ready, node.order, &lane});
}

bool Timeline::dispatch_first(bool may_wait) {
  const Head head = heads_.top();
  Lane& lane = *head.lane;
  Lane::Node& node = lane.at(lane.dispatched_ + 1);
  const Work& work = node.task.work;
  Span span{head.ready, head.ready + work.fixed + work.busy};
  if (work.engine != Engine::kNone && !engines_.take(work, head.ready, may_wait, &span)) return false;
  heads_.pop();
  node.end = span.end;
  ++lane.dispatched_;
  lane.last_end_ = span.end;
  if (node.task.stamp != nullptr) {
    node.task.stamp->time = span.end;
    node.task.stamp.reset();
  }
  if (sink_ && node.task.name != nullptr) {
    sink_(Slice{work.device, work.engine, lane.id_, node.task.name, span});
  }
  for (const Lane::Waiter& waiter : node.waiters) {
    Lane::Node& waiting = waiter.lane->at(waiter.ticket);
    waiting.ready = std::max(waiting.ready, span.end);
    if (--waiting.unresolved == 0 && waiter.lane->dispatched_ + 1 == waiter.ticket) offer_head(*waiter.lane);
  }
  node.waiters.clear();
  offer_head(lane);
  return true;
}

void Timeline::advance() {
  while (!heads_.empty() && heads_.top().ready <= now_ && dispatch_first(false)) {
  }
  const bool idle = heads_.empty();
  engines_.promise(idle ? now_ : std::min(now_, heads_.top().ready), idle);
}

void Timeline::wait(const std::shared_ptr<Lane>& lane, std::uint64_t ticket) {
  // Waits point to older operations only, so there is always a head until this one has run.
  while (lane->dispatched_ < ticket && !heads_.empty()) dispatch_first(true);
  if (ticket >= lane->first_) raise(lane->at(ticket).end);
  retire(*lane);
  advance();
}

void Timeline::wait_all(std::uint64_t context) {
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const std::shared_ptr<Lane> lane = active_[i];
    if (context == 0 || lane->context_ == context) wait(lane, lane->enqueued_);
  }
  forget_idle_lanes();
}

}  // namespace simgpu::timing
