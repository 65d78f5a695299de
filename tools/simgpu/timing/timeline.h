#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "tools/simgpu/timing/engines.h"
#include "tools/simgpu/timing/lane.h"

namespace simgpu::timing {

/// One operation that got its engine, for whoever draws the device's work.
struct Slice {
  std::uint8_t device;
  Engine engine;
  std::uint64_t lane;       ///< id of its stream
  const std::string* name;  ///< lives as long as the timeline's owner keeps names
  Span span;
};

/// When operations would run, as a discrete-event simulation beside the one that moves bytes. It is fed in
/// the order of the API calls and knows nothing of when bytes moved, so that one program has one time,
/// whatever the seed.
///
/// An operation is ready once the one before it in its stream and all that it waits for have ended, and not
/// before the host had called for it. Of all that is ready, what is ready first starts first (at the same
/// time: what was called first), as soon as its engine is free.
///
/// There is one host clock. Everything up to it is final, because what comes later is ready no earlier; so
/// the result does not depend on how far the simulation has been run at any moment. Memory is bounded: a
/// stream holds at most Lane::kLimit operations that have not ended at the host's time; one more makes the
/// host wait, as a full queue does.
///
/// Not thread-safe: the device lock protects it.
class Timeline {
 public:
  /// `engines` outlives this.
  explicit Timeline(Engines& engines) : engines_(engines) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// A new stream of this context.
  static std::shared_ptr<Lane> new_lane(std::uint64_t id, std::uint64_t context, LaneKind kind);

  [[nodiscard]] Nanos now() const { return now_; }
  /// The host has been at work for this long.
  void charge(Nanos nanos) { now_ += nanos; }
  /// The host clock is at least this from now on.
  void raise(Nanos time) { now_ = time > now_ ? time : now_; }

  /// Adds an operation to the stream, called for now; returns its number, from 1 on. Waits between the legacy
  /// stream and blocking streams are added here.
  std::uint64_t enqueue(const std::shared_ptr<Lane>& lane, Task&& task, std::span<const After> after);

  /// The host waits for this operation.
  void wait(const std::shared_ptr<Lane>& lane, std::uint64_t ticket);
  /// The host waits for all operations of this context; 0: of every context.
  void wait_all(std::uint64_t context);

  /// Runs what is final by now, and says so to the others.
  void advance();

  /// Called for each operation with an engine or a name, in the order in which they get their engines.
  void on_slice(std::function<void(const Slice&)> sink) { sink_ = std::move(sink); }

 private:
  struct Head {
    Nanos ready;
    std::uint64_t order;
    Lane* lane;
    bool operator>(const Head& other) const {
      return ready != other.ready ? ready > other.ready : order > other.order;
    }
  };

  void add_after(Lane& lane, std::uint64_t ticket, const After& after);
  void add_legacy_rules(Lane& lane, std::uint64_t ticket);
  void offer_head(Lane& lane);
  bool dispatch_first(bool may_wait);
  void retire(Lane& lane);
  void forget_idle_lanes();

  Engines& engines_;
  Nanos now_ = 0;
  std::uint64_t orders_ = 0;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
  std::vector<std::shared_ptr<Lane>> active_;  ///< those with operations that may not have ended by now
  std::size_t sweep_at_ = 64;
  std::function<void(const Slice&)> sink_;
};

}  // namespace simgpu::timing
