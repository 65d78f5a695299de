#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace simgpu {

/// A set of half-open ranges of 64-bit numbers; touching ranges merge.
class Intervals {
 public:
  void add(std::uint64_t low, std::uint64_t high) {
    auto it = ranges_.upper_bound(low);
    if (it != ranges_.begin() && std::prev(it)->second >= low) --it;
    while (it != ranges_.end() && it->first <= high) {
      low = it->first < low ? it->first : low;
      high = it->second > high ? it->second : high;
      total_ -= it->second - it->first;
      it = ranges_.erase(it);
    }
    ranges_.emplace(low, high);
    total_ += high - low;
  }

  void remove(std::uint64_t low, std::uint64_t high) {
    auto it = ranges_.upper_bound(low);
    if (it != ranges_.begin() && std::prev(it)->second > low) --it;
    while (it != ranges_.end() && it->first < high) {
      const auto [first, last] = *it;
      total_ -= last - first;
      it = ranges_.erase(it);
      if (first < low) insert_piece(first, low);
      if (last > high) insert_piece(high, last);
    }
  }

  [[nodiscard]] bool overlaps(std::uint64_t low, std::uint64_t high) const {
    const auto it = ranges_.lower_bound(high);
    return it != ranges_.begin() && std::prev(it)->second > low;
  }

  [[nodiscard]] bool contains(std::uint64_t low, std::uint64_t high) const {
    const auto it = ranges_.upper_bound(low);
    return it != ranges_.begin() && std::prev(it)->second >= high;
  }

  /// The lowest start >= from of `size` numbers of which none is in the set, ending at or below `limit`.
  [[nodiscard]] std::optional<std::uint64_t> first_gap(std::uint64_t from, std::uint64_t size,
                                                       std::uint64_t limit) const {
    auto it = ranges_.upper_bound(from);
    if (it != ranges_.begin() && std::prev(it)->second > from) from = std::prev(it)->second;
    for (; it != ranges_.end() && it->first < from + size; ++it) from = it->second;
    if (from + size > limit) return std::nullopt;
    return from;
  }

  /// The lowest member >= from.
  [[nodiscard]] std::optional<std::uint64_t> first_at_or_after(std::uint64_t from) const {
    const auto it = ranges_.upper_bound(from);
    if (it != ranges_.begin() && std::prev(it)->second > from) return from;
    if (it == ranges_.end()) return std::nullopt;
    return it->first;
  }
  /// The end of the range that this member is in.
  [[nodiscard]] std::uint64_t end_of(std::uint64_t member) const {
    return std::prev(ranges_.upper_bound(member))->second;
  }

  /// The lowest range. The set is not empty.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> front() const { return *ranges_.begin(); }
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  void insert_piece(std::uint64_t low, std::uint64_t high) {
    ranges_.emplace(low, high);
    total_ += high - low;
  }

  std::map<std::uint64_t, std::uint64_t> ranges_;
  std::uint64_t total_ = 0;
};

}  // namespace simgpu
