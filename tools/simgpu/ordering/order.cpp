#include "tools/simgpu/ordering/order.h"

#include <algorithm>
#include <utility>

namespace simgpu::ordering {
namespace {

/// Clocks with more entries than this are cleared of what the host knows anyway.
constexpr std::size_t kTrimAbove = 8;

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

void Order::follow(Lane& lane, const Lane& other) {
  // What precedes a stream changes only when it gets an operation: no new one, nothing to learn.
  if (lane.before_.of(other.id_) == other.enqueued_) return;
  lane.before_.merge(other.before_);
  lane.before_.raise(other.id_, other.enqueued_);
}

std::uint64_t Order::enqueue(Lane& lane, std::span<const std::shared_ptr<const Clock>> after) {
  for (const std::shared_ptr<const Clock>& snapshot : after) lane.before_.merge(*snapshot);
  if (lane.kind_ != LaneKind::kNonBlocking) {
    const auto& others = lane.kind_ == LaneKind::kLegacy ? blocking_ : legacy_;
    const auto it = others.find(lane.context_);
    if (it != others.end()) {
      for (const Lane* other : it->second) follow(lane, *other);
    }
  }
  trim(lane.before_);
  return ++lane.enqueued_;
}

std::shared_ptr<const Clock> Order::snapshot(Lane& lane) {
  auto clock = std::make_shared<Clock>(lane.before_);
  clock->raise(lane.id_, lane.enqueued_);
  return clock;
}

bool Order::precedes(const Lane& earlier, std::uint64_t ticket, const Lane& lane) const {
  if (&earlier == &lane || ticket <= earlier.host_knows_) return true;
  return ticket <= lane.before_.of(earlier.id_);
}

void Order::host_learns(Lane& lane, std::uint64_t ticket) {
  lane.host_knows_ = std::max(lane.host_knows_, ticket);
  // What the host knows all of has no history of its own any more.
  if (lane.host_knows_ >= lane.enqueued_) lane.before_ = Clock();
}

void Order::host_waited(Lane& lane) {
  const Clock before = std::move(lane.before_);
  host_learns(lane, lane.enqueued_);
  host_waited(before);
}

void Order::host_waited(const Clock& snapshot) {
  for (const Clock::Entry& entry : snapshot.entries()) {
    const auto it = by_id_.find(entry.lane);
    if (it != by_id_.end()) host_learns(*it->second, entry.ticket);
  }
  if (!snapshot.loose()) return;
  // Whatever it was that came before by other means has run by now.
  for (const auto& [id, lane] : by_id_) host_learns(*lane, lane->completed_);
}

void Order::host_waited_all(std::uint64_t context) {
  for (const auto& [id, lane] : by_id_) {
    if (context == 0 || lane->context_ == context) host_waited(*lane);
  }
}

}  // namespace simgpu::ordering
