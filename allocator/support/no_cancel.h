#pragma once

#include <pthread.h>

namespace tidepool {

/// While one lives, pthread_cancel does not end the calling thread; it ends at its next cancellation point
/// after that. A thread that was cancelled in the driver, below us, would leave blocks held and work without
/// tickets. Hook-safe.
class NoCancel {
 public:
  NoCancel() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = 0;
};

}  // namespace tidepool
