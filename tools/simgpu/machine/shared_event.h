#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace simgpu {

/// An event that processes share (CU_EVENT_INTERPROCESS). Its records are numbered; the event is over when
/// the last one is.
struct SharedEvent {
  std::atomic<std::uint64_t> generation;  ///< odd while it is in use; grows at each change
  std::atomic<std::uint64_t> recorded;    ///< number of the latest record
  std::atomic<std::uint64_t> completed;   ///< records up to here are over
  std::atomic<std::uint32_t> maker;       ///< slot of the process that made it
  std::atomic<std::uint32_t> recorder;    ///< slot of the process that made the latest record

  /// That record is over, and those before it.
  void complete(std::uint64_t number) {
    std::uint64_t before = completed.load(std::memory_order_relaxed);
    while (before < number && !completed.compare_exchange_weak(before, number, std::memory_order_release,
                                                               std::memory_order_relaxed)) {
    }
  }
};

/// The shared events of a machine, and who waits for another process' work.
struct SharedEvents {
  static constexpr std::size_t kMax = 4096;

  std::array<SharedEvent, kMax> events;
  /// When a process last waited for something that only another one can bring about: CLOCK_MONOTONIC in
  /// nanoseconds. While that is recent, processes with shared events run their queued work by themselves.
  std::atomic<std::int64_t> waited_at;
};

}  // namespace simgpu
