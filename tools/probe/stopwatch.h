#pragma once

#include "tools/probe/memory.h"

namespace tidepool::probe {

/// Time as the device's events tell it. On a simulated device that is the time in which it simulates, also of
/// what calls cost the host, which no clock of this computer shows: an event in a stream without work has the
/// time at which it was recorded. Needs a current context; throws DriverError.
class DeviceClock {
 public:
  DeviceClock() {
    own_ns_ = elapsed_ns([] {});
  }

  template <class F>
  double time_ns(F&& f) const {
    return elapsed_ns(f) - own_ns_;
  }

 private:
  template <class F>
  double elapsed_ns(F&& f) const {
    start_.record(stream_);
    f();
    end_.record(stream_);
    stream_.synchronize();
    return end_.ns_since(start_);
  }

  Stream stream_;
  Event start_, end_;
  double own_ns_ = 0;  ///< what recording takes
};

}  // namespace tidepool::probe
