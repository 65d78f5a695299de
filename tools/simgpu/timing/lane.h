#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/simgpu/timing/engines.h"

namespace simgpu::timing {

class Lane;

/// When an operation ended, for whoever asks later (events). Negative: not known yet.
struct Stamp {
  Nanos time = -1;
};

/// "Not before that operation has ended."
struct After {
  std::shared_ptr<Lane> lane;
  std::uint64_t ticket = 0;
};

/// What the timeline needs to know of an operation.
struct Task {
  Work work;
  const std::string* name = nullptr;  ///< null: not worth showing
  std::shared_ptr<Stamp> stamp;       ///< filled when the end is known
};

enum class LaneKind : std::uint8_t {
  kLegacy,       ///< waits for all blocking streams of its context, and they for it
  kBlocking,     ///< an ordinary stream, a per-thread default stream too
  kNonBlocking,  ///< made with CU_STREAM_NON_BLOCKING
};

/// One stream's operations that have not ended at the host's time. Only a Timeline looks inside.
class Lane {
 public:
  /// Queued operations beyond this many make the host wait.
  static constexpr std::size_t kLimit = 1024;

  Lane(std::uint64_t id, std::uint64_t context, LaneKind kind) : id_(id), context_(context), kind_(kind) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// The number of the latest operation.
  [[nodiscard]] std::uint64_t enqueued() const { return enqueued_; }

 private:
  friend class Timeline;

  struct Waiter {
    Lane* lane;
    std::uint64_t ticket;
  };
  struct Node {
    Task task;
    Nanos ready = 0;  ///< grows as what it waits for ends
    Nanos end = 0;    ///< once dispatched
    std::uint64_t order = 0;
    std::uint32_t unresolved = 0;  ///< waits whose end is not known
    std::vector<Waiter> waiters;   ///< who waits for this one
  };

  [[nodiscard]] bool empty() const { return first_ > enqueued_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(enqueued_ + 1 - first_); }
  [[nodiscard]] Node& at(std::uint64_t ticket) { return ring_[ticket & (ring_.size() - 1)]; }

  Node& push() {
    if (size() >= ring_.size()) grow();
    return at(++enqueued_);
  }
  void grow() {
    std::vector<Node> larger(ring_.empty() ? 16 : ring_.size() * 2);
    for (std::uint64_t t = first_; t <= enqueued_; ++t) larger[t & (larger.size() - 1)] = std::move(at(t));
    ring_ = std::move(larger);
  }

  std::uint64_t id_;
  std::uint64_t context_;
  LaneKind kind_;
  bool active_ = false;           ///< the timeline lists it
  std::uint64_t first_ = 1;       ///< the oldest operation that is kept
  std::uint64_t dispatched_ = 0;  ///< up to here ends are known
  std::uint64_t enqueued_ = 0;
  Nanos last_end_ = 0;  ///< of operation dispatched_
  std::vector<Node> ring_;
};

}  // namespace simgpu::timing
