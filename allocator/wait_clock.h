#pragma once

#include "allocator/support/stats_page.h"
#include "allocator/support/units.h"

namespace tidepool::runtime {

/// Charges the time from here to the end of the scope, less what scopes inside it are charged for, to one
/// cause of waiting: a metric wait_<cause>_ns_total. A scope that is in no other also counts for
/// wait_ns_total, so the causes add up to that. Scopes nest on a thread. Hook-safe; for the slow path, since
/// it asks for the time twice.
class WaitClock {
 public:
  explicit WaitClock(Metric cause) noexcept : cause_(cause), outer_(t_innermost), start_(monotonic_now()) {
    t_innermost = this;
  }
  ~WaitClock() {
    const Nanos whole = so_far();
    charge(cause_, whole - inner_);
    t_innermost = outer_;
    if (outer_ != nullptr) {
      outer_->inner_ += whole;
    } else {
      charge(Metric::wait_ns_total, whole);
    }
  }
  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

  [[nodiscard]] Nanos so_far() const noexcept { return monotonic_now() - start_; }

 private:
  static void charge(Metric metric, Nanos time) noexcept {
    StatsPage::instance().add(metric, static_cast<std::uint64_t>(time.count()));
  }

  // One in the whole library, not one in each file that waits.
  static inline constinit thread_local WaitClock* t_innermost __attribute__((tls_model("initial-exec"))) =
      nullptr;

  const Metric cause_;
  WaitClock* const outer_;
  const Nanos start_;
  Nanos inner_{};
};

}  // namespace tidepool::runtime
