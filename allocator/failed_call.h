#pragma once

#include <atomic>

#include "allocator/device.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

/// Says that a driver call failed while memory moved: as a mishap, or once that the device is lost.
/// Hook-safe.
inline void report_failed_call(const char* call, Status status) noexcept {
  static constinit std::atomic<bool> said_lost{false};
  if (!loses_device(status)) {
    report<Msg::TP3001>(call, status.code());
  } else if (!said_lost.exchange(true, std::memory_order_relaxed)) {
    report<Msg::TP3005>(call, status.code());
  }
}

}  // namespace tidepool::runtime
