#include "tools/simgpu/ordering/access_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simgpu::ordering {
namespace {

bool same_operation(const Access& a, const Access& b) {
  return a.lane == b.lane && a.ticket == b.ticket;
}

bool same(const Access& a, const Access& b) {
  return same_operation(a, b) && a.shift == b.shift && a.write == b.write && a.inferred == b.inferred;
}

bool same(const std::vector<Access>& a, const std::vector<Access>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Access& x, const Access& y) { return same(x, y); });
}

/// True if everything that races with `weak` races with `strong`, which comes after it.
bool stands_for(const Access& strong, const Access& weak) {
  return (strong.write || !weak.write) && (!strong.inferred || weak.inferred) && strong.shift == weak.shift;
}

/// One race for a pair of operations, however many pieces they have in common.
void note(const Access& first, const Access& second, std::uint64_t place, std::uint64_t bytes,
          std::vector<Race>* races) {
  for (Race& race : *races) {
    if (!same_operation(race.first, first) || race.first.write != first.write) continue;
    if (race.second.write != second.write) continue;
    race.bytes += bytes;
    if (place + second.shift < race.place + race.second.shift) {
      race.place = place;
      race.first.shift = first.shift;
      race.second.shift = second.shift;
    }
    // Certain somewhere is certain.
    if (race.possible() && !first.inferred && !second.inferred) {
      race.first.inferred = race.second.inferred = false;
    }
    return;
  }
  races->push_back(Race{first, second, place, bytes});
}

}  // namespace

AccessHistory::Cells::iterator AccessHistory::split(std::uint64_t at) {
  auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return it;
  auto before = std::prev(it);
  if (before->first == at) return before;
  if (before->second.end <= at) return it;
  Cell upper = before->second;
  before->second.end = at;
  return cells_.emplace_hint(it, at, std::move(upper));
}

void AccessHistory::touch_cell(const Access& access, std::uint64_t place, Cell& cell,
                               std::vector<Race>* races) {
  bool stood_for = false;
  std::erase_if(cell.accesses, [&](const Access& earlier) {
    if (order_.known_to_host(*earlier.lane, earlier.ticket)) return true;
    if (same_operation(earlier, access)) {
      stood_for = stood_for || stands_for(earlier, access);
      return stands_for(access, earlier) && !stood_for;
    }
    if (order_.precedes(*earlier.lane, earlier.ticket, *access.lane)) return stands_for(access, earlier);
    if (earlier.write || access.write) note(earlier, access, place, cell.end - place, races);
    return false;
  });
  if (!stood_for) cell.accesses.push_back(access);
}

void AccessHistory::join_with_previous(Cells::iterator it) {
  if (it == cells_.begin() || it == cells_.end()) return;
  const auto before = std::prev(it);
  if (before->second.end != it->first || !same(before->second.accesses, it->second.accesses)) return;
  before->second.end = it->second.end;
  cells_.erase(it);
}

void AccessHistory::touch(const Access& access, std::uint64_t place, std::uint64_t bytes,
                          std::vector<Race>* races) {
  const std::uint64_t end = place + bytes;
  split(place);
  split(end);
  auto it = cells_.lower_bound(place);
  std::uint64_t at = place;
  while (at < end) {
    if (it == cells_.end() || it->first > at) {
      const std::uint64_t gap_end = it == cells_.end() ? end : std::min(end, it->first);
      it = cells_.emplace_hint(it, at, Cell{gap_end, {}});
    }
    touch_cell(access, at, it->second, races);
    at = it->second.end;
    const auto next = std::next(it);
    join_with_previous(it);
    it = next;
  }
  join_with_previous(it);
}

std::vector<Race> AccessHistory::record(const std::shared_ptr<Lane>& lane, const std::string* name,
                                        std::span<const Touch> touches) {
  std::vector<Race> races;
  if (Order::loose(*lane)) return races;
  if (cells_.size() >= sweep_at_) sweep();
  for (const Touch& t : touches) {
    if (t.bytes == 0) continue;
    touch(Access{lane, lane->enqueued(), name, t.address - t.place, t.write, t.inferred}, t.place, t.bytes,
          &races);
  }
  return races;
}

std::vector<Race> AccessHistory::take_away(std::uint64_t place, std::uint64_t bytes, std::uint64_t address) {
  std::vector<Race> races;
  const std::uint64_t end = place + bytes;
  auto it = cells_.upper_bound(place);
  if (it != cells_.begin() && std::prev(it)->second.end > place) --it;
  for (; it != cells_.end() && it->first < end; ++it) {
    const std::uint64_t low = std::max(place, it->first);
    const std::uint64_t high = std::min(end, it->second.end);
    for (const Access& access : it->second.accesses) {
      if (access.shift != address - place || order_.known_to_host(*access.lane, access.ticket)) continue;
      note(access, Access{nullptr, 0, nullptr, access.shift, true, false}, low, high - low, &races);
    }
  }
  return races;
}

void AccessHistory::forget(std::uint64_t place, std::uint64_t bytes) {
  split(place);
  split(place + bytes);
  cells_.erase(cells_.lower_bound(place), cells_.lower_bound(place + bytes));
}

void AccessHistory::sweep() {
  for (auto it = cells_.begin(); it != cells_.end();) {
    std::erase_if(it->second.accesses,
                  [this](const Access& a) { return order_.known_to_host(*a.lane, a.ticket); });
    it = it->second.accesses.empty() ? cells_.erase(it) : std::next(it);
  }
  sweep_at_ = 2 * cells_.size() + 1024;
}

}  // namespace simgpu::ordering
