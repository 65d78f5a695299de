#pragma once

#include "allocator/support/stats_page.h"
#include "allocator/support/units.h"

namespace tidepool::runtime {

/// Charges the time from here to the end of the scope to one cause of waiting: a metric
/// wait_<cause>_ns_total. Scopes of different causes do not overlap on a thread, so that causes can be added
/// up. Hook-safe; for the slow path, since it asks for the time twice.
class WaitClock {
 public:
  explicit WaitClock(Metric cause) noexcept : cause_(cause), start_(monotonic_now()) {}
  ~WaitClock() {
    StatsPage::instance().add(cause_, static_cast<std::uint64_t>((monotonic_now() - start_).count()));
  }
  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

 private:
  const Metric cause_;
  const Nanos start_;
};

}  // namespace tidepool::runtime
