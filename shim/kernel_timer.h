#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "allocator/recorder.h"

namespace tidepool::shim {

/// A pair of events around one launch, in iterations whose kernels are timed (TIDEPOOL_PROFILE_ITERATIONS):
///
///     TimedLaunch timed;
///     ... if (timing()) timed.begin(stream, per_thread); enqueue; timed.end(result) ...
///     record the launch; timed.recorded();
///
/// Only there anything is locked. What cannot be timed is launched all the same, and counted: work that goes
/// into a graph or in streams of other contexts than the first managed device's, and launches for which no
/// pair of events was free.
class TimedLaunch {
 public:
  TimedLaunch() noexcept = default;
  TimedLaunch(const TimedLaunch&) = delete;
  TimedLaunch& operator=(const TimedLaunch&) = delete;
  ~TimedLaunch() { abandon(); }

  void begin(CUstream stream, bool per_thread) noexcept;
  void end(CUresult result) noexcept;
  /// The calling thread has just written the record of the launch.
  void recorded() noexcept {
    if (start_ != nullptr) [[unlikely]]
      hand_over();
  }

 private:
  void hand_over() noexcept;
  void abandon() noexcept {
    if (start_ != nullptr) [[unlikely]]
      give_back();
  }
  void give_back() noexcept;

  CUevent start_ = nullptr;  ///< null: this launch is not timed
  CUevent end_;
  CUstream stream_;
  std::uint64_t generation_;  ///< of the events
};

/// One load; true in iterations whose kernels are timed.
inline bool timing() noexcept {
  return runtime::Recorder::is_timing();
}

/// Writes the durations of timed launches that have ended since; at once if there are none. When all have
/// ended and no more are to be timed, what that cost is written as well.
void write_durations() noexcept;

/// The device's context is about to go, and the events with it.
void forget_timings() noexcept;

}  // namespace tidepool::shim
