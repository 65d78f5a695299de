#include "tools/simgpu/ordering/order.h"

#include <algorithm>
#include <utility>

namespace simgpu::ordering {
namespace {

/// Clocks with more entries than this are cleared of what the host knows anyway.
constexpr std::size_t kTrimAbove = 8;
/// Changes that a stream remembers. Of operations that are older than that, more is taken to come before than
/// really does: then a race can be missed, never invented.
constexpr std::size_t kMaxChanges = 64;

}  // namespace

std::shared_ptr<Lane> Order::new_lane(std::uint64_t id, std::uint64_t context, LaneKind kind) {
  if (by_id_.size() >= sweep_at_) forget_ended_lanes();
  auto lane = std::make_shared<Lane>(id, context, kind);
  by_id_.emplace(id, lane);
  if (kind == LaneKind::kBlocking) blocking_[context].push_back(lane.get());
  if (kind == LaneKind::kLegacy) legacy_[context].push_back(lane.get());
  return lane;
}

void Order::forget_ended_lanes() {
  for (auto it = by_id_.begin(); it != by_id_.end();) {
    const std::shared_ptr<Lane>& lane = it->second;
    // Nobody else can add to it, and everything it did precedes whatever comes.
    if (lane.use_count() > 1 || lane->host_knows_ < lane->enqueued_) {
      ++it;
      continue;
    }
    if (lane->kind_ != LaneKind::kNonBlocking) {
      auto& lists = lane->kind_ == LaneKind::kLegacy ? legacy_ : blocking_;
      std::vector<Lane*>& list = lists[lane->context_];
      std::erase(list, lane.get());
      if (list.empty()) lists.erase(lane->context_);
    }
    it = by_id_.erase(it);
  }
  sweep_at_ = 2 * by_id_.size() + 64;
}

void Order::trim(Clock& clock) {
  if (clock.size() <= kTrimAbove) return;
  clock.drop_if([this](std::uint64_t id, std::uint64_t ticket) {
    const auto it = by_id_.find(id);
    return it == by_id_.end() || ticket <= it->second->host_knows_;
  });
}

const Clock& Order::before(const Lane& lane, std::uint64_t ticket) {
  const Clock* found = &lane.before_;
  for (auto it = lane.earlier_.rbegin(); it != lane.earlier_.rend() && ticket < it->until; ++it) {
    found = &it->before;
  }
  return *found;
}

Clock& Order::change(Lane& lane) {
  // The operation to come is enqueued_ + 1; those before it keep what they had.
  const std::uint64_t next = lane.enqueued_ + 1;
  const bool kept = !lane.earlier_.empty() && lane.earlier_.back().until == next;
  if (!kept && lane.enqueued_ > lane.host_knows_) lane.earlier_.push_back({next, lane.before_});
  if (lane.earlier_.size() > kMaxChanges) lane.earlier_.pop_front();
  return lane.before_;
}

void Order::follow(Lane& lane, const Lane& other, std::uint64_t ticket) {
  if (&lane == &other || ticket <= other.host_knows_ || lane.before_.of(other.id_) >= ticket) return;
  Clock& clock = change(lane);
  clock.merge(before(other, ticket));
  clock.raise(other.id_, ticket);
}

std::uint64_t Order::enqueue(Lane& lane, std::span<const After> after) {
  for (const After& one : after) follow(lane, *one.lane, one.ticket);
  if (lane.kind_ != LaneKind::kNonBlocking) {
    const auto& others = lane.kind_ == LaneKind::kLegacy ? blocking_ : legacy_;
    const auto it = others.find(lane.context_);
    if (it != others.end()) {
      for (const Lane* other : it->second) follow(lane, *other, other->enqueued_);
    }
  }
  trim(lane.before_);
  return ++lane.enqueued_;
}

bool Order::precedes(const Lane& earlier, std::uint64_t ticket, const Lane& lane) const {
  if (&earlier == &lane || ticket <= earlier.host_knows_) return true;
  return ticket <= lane.before_.of(earlier.id_);
}

void Order::host_learns(Lane& lane, std::uint64_t ticket) {
  lane.host_knows_ = std::max(lane.host_knows_, ticket);
  while (!lane.earlier_.empty() && lane.earlier_.front().until <= lane.host_knows_ + 1) {
    lane.earlier_.pop_front();
  }
  // What the host knows all of has no history of its own any more.
  if (lane.host_knows_ >= lane.enqueued_) lane.before_ = Clock();
}

void Order::host_learns(const Clock& clock) {
  for (const Clock::Entry& entry : clock.entries()) {
    const auto it = by_id_.find(entry.lane);
    if (it != by_id_.end()) host_learns(*it->second, entry.ticket);
  }
  if (!clock.loose()) return;
  // Whatever it was that came before by other means has run by now.
  for (const auto& [id, lane] : by_id_) host_learns(*lane, lane->completed_);
}

void Order::host_waited(Lane& lane, std::uint64_t ticket) {
  if (ticket <= lane.host_knows_) return;
  const Clock clock = before(lane, ticket);
  host_learns(lane, ticket);
  host_learns(clock);
}

void Order::host_waited_all(std::uint64_t context) {
  for (const auto& [id, lane] : by_id_) {
    if (context == 0 || lane->context_ == context) host_waited(*lane, lane->enqueued_);
  }
}

void Order::loosen(Lane& lane) {
  change(lane).loosen();
}

}  // namespace simgpu::ordering
