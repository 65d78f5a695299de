#pragma once

#include <sched.h>
#include <time.h>

namespace tidepool::runtime {

/// Between two looks at what another thread is about to change. Yields at first; then sleeps, so that the
/// other thread runs even where the caller goes first as long as it can (SCHED_FIFO) and has taken its
/// processor. Hook-safe.
class Backoff {
 public:
  void pause() noexcept {
    if (++rounds_ <= kYields) {
      ::sched_yield();
      return;
    }
    const timespec nap{0, 20'000};
    ::nanosleep(&nap, nullptr);
  }

 private:
  static constexpr int kYields = 64;
  int rounds_ = 0;
};

}  // namespace tidepool::runtime
