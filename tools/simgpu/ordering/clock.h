#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu::ordering {

/// A set of operations that is closed downwards: of each stream named here, all up to that number. A stream
/// that is not named has none. Small and sorted: there are few streams at a time.
class Clock {
 public:
  struct Entry {
    std::uint64_t lane;
    std::uint64_t ticket;
    bool operator==(const Entry&) const = default;
  };

  /// The number of the latest operation of this stream in the set, 0 if none.
  [[nodiscard]] std::uint64_t of(std::uint64_t lane) const;
  void raise(std::uint64_t lane, std::uint64_t ticket);
  void merge(const Clock& other);
  /// Drops the entries for which covered(lane, ticket) is true.
  template <class Covered>
  void drop_if(Covered&& covered) {
    std::erase_if(entries_, [&](const Entry& entry) { return covered(entry.lane, entry.ticket); });
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  /// True if some of what precedes was ordered by means that are not in the set: a wait for a value in memory
  /// or for another process.
  [[nodiscard]] bool loose() const { return loose_; }
  void loosen() { loose_ = true; }

 private:
  std::vector<Entry> entries_;
  bool loose_ = false;
};

}  // namespace simgpu::ordering
