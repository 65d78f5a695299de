#include "tools/simgpu/ordering/clock.h"

#include <algorithm>

namespace simgpu::ordering {
namespace {

bool before(const Clock::Entry& entry, std::uint64_t lane) {
  return entry.lane < lane;
}

}  // namespace

std::uint64_t Clock::of(std::uint64_t lane) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), lane, before);
  return it != entries_.end() && it->lane == lane ? it->ticket : 0;
}

void Clock::raise(std::uint64_t lane, std::uint64_t ticket) {
  if (ticket == 0) return;
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), lane, before);
  if (it == entries_.end() || it->lane != lane) {
    entries_.insert(it, Entry{lane, ticket});
  } else {
    it->ticket = std::max(it->ticket, ticket);
  }
}

void Clock::merge(const Clock& other) {
  for (const Entry& entry : other.entries_) raise(entry.lane, entry.ticket);
  loose_ = loose_ || other.loose_;
}

}  // namespace simgpu::ordering
