#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/capture.h"
#include "tools/simgpu/driver/operation.h"
#include "tools/simgpu/ordering/order.h"

namespace simgpu {

struct Context;

/// Priorities go from 0, the least, down to this one.
inline constexpr int kGreatestPriority = -5;

/// A first-in first-out queue of operations with a fixed limit; grows by doubling up to it.
class OperationQueue {
 public:
  static constexpr std::size_t kLimit = 1024;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == kLimit; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] Operation& front() { return ring_[first_]; }

  void push(Operation&& operation) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_) & (ring_.size() - 1)] = std::move(operation);
    ++count_;
  }
  Operation pop() {
    Operation operation = std::move(ring_[first_]);
    ring_[first_] = Operation{};
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    return operation;
  }

 private:
  void grow() {
    std::vector<Operation> larger(ring_.empty() ? 16 : ring_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(ring_[(first_ + i) & (ring_.size() - 1)]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Operation> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

/// A stream: its queue and its counters. Operations are numbered from 1; the one with
/// number `ticket` is done when `completed >= ticket`. Lives while a handle, queued work or an event refers
/// to it.
struct Stream {
  Context* context = nullptr;
  std::uint64_t id = 0;
  std::optional<ordering::Owner> works_for;  ///< for batches and graphs; none: it is a stream of the program
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;   ///< the legacy default stream: waits for all blocking streams, and they for it
  bool blocking = true;  ///< not created with CU_STREAM_NON_BLOCKING
  bool listed = false;   ///< has queued work: the scheduler knows it
  bool running = false;  ///< its first operation is a host function that runs now, without the device lock
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  std::uint64_t host_saw = 0;  ///< operations up to here were over when the host had waited or asked
  bool unseen = false;         ///< the scheduler has it in a list of streams whose end no host has waited for
  OperationQueue queue;
  std::shared_ptr<timing::Lane> time;                ///< the ledger's, from the first operation on
  std::shared_ptr<ordering::Lane> order;             ///< the same
  std::vector<std::shared_ptr<Stream>> batch_lanes;  ///< see api_batch.cpp
  std::vector<std::shared_ptr<Stream>> early_lanes;  ///< the same
  std::unique_ptr<StreamCapture> capture;            ///< while it takes part in a capture: nothing is queued
};

}  // namespace simgpu
