#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "allocator/support/event_ring.h"

namespace tidepool::tools {

/// An event as it was read.
struct EventSeen {
  std::uint64_t number;
  std::int64_t time_ns;  ///< since the start of its process' ring
  std::uint32_t thread;
  const EventRow* row;
  std::uint64_t values[kMostEventValues];
  std::string text;
};

/// Whose events a ring holds.
struct EventSource {
  std::int64_t pid;
  std::int64_t start_unix_ns;
  std::int64_t rank;  ///< -1: none
  std::string program;
  std::string run_id;
  std::vector<std::string> arguments;
};

/// Reads the ring of a process, while it runs and after its end. What it has not seen before it was
/// overwritten is lost, and counted.
class EventReader {
 public:
  /// Maps the file; empty if it is no complete ring of this version.
  static std::optional<EventReader> open(const std::string& path);
  EventReader(EventReader&& other) noexcept;
  EventReader& operator=(EventReader&&) = delete;
  ~EventReader();

  [[nodiscard]] const EventSource& source() const { return source_; }
  /// Hands on every event that is complete and new, in order. An event that is still being written is waited
  /// for until the next call; with `is_last`, and the second time, it is lost.
  void read(const std::function<void(const EventSeen&)>& take, bool is_last);
  /// Nanoseconds since the ring was made.
  [[nodiscard]] std::int64_t age() const { return monotonic_now().count() - ring_->start_ns; }
  /// Events that there were so far, also those that nobody will see.
  [[nodiscard]] std::uint64_t written() const { return ring_->next.load(std::memory_order_acquire); }
  /// Events that nobody will see, so far.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  explicit EventReader(const EventRingLayout* ring);
  bool read_one(const std::function<void(const EventSeen&)>& take);

  const EventRingLayout* ring_;
  EventSource source_;
  std::uint64_t next_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t waited_for_ = ~std::uint64_t{0};
};

/// Names of the rings in a folder.
std::vector<std::string> list_event_rings(const std::string& folder);

}  // namespace tidepool::tools
