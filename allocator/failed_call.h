#pragma once

#include <atomic>
#include <cstdio>

#include "allocator/device.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

/// Could this be the answer to work that used an address where nothing is mapped? (An illegal address, and
/// what drivers make of one: a launch that failed, an operation on a wrong address space.)
constexpr bool is_wrong_address(Status status) noexcept {
  return status.code() == 700 || status.code() == 717 || status.code() == 719;
}

/// What such an answer says has happened. Of the three only the first two are told of an address alone.
constexpr const char* cause_of(Status status) noexcept {
  if (status.code() == 700) return "work on the device used an address where nothing is";
  if (status.code() == 717)
    return "work on the device used an address that is not of the memory it was meant for";
  return "work on the device failed: a trap, a device that is lost, or an address where nothing is";
}

/// In this process idle memory has no address (TIDEPOOL_CHECK=unmap). Set when a runtime begins.
inline constinit std::atomic<bool> is_idle_memory_unmapped{false};

/// Says once in the life of the process that the device is lost: after a wrong address, where memory that
/// Tidepool takes away may have been meant, how to find out; or where that is being found out, that `call`,
/// or work before it, is it. Hook-safe.
inline void report_lost(const char* call, Status status) noexcept {
  static constinit std::atomic<bool> said_lost{false};
  if (said_lost.exchange(true, std::memory_order_relaxed)) return;
  if (is_wrong_address(status) && StatsPage::instance().get(Metric::blocks_managed_total) > 0) {
    if (is_idle_memory_unmapped.load(std::memory_order_relaxed)) {
      report<Msg::TP2020>(call, status.code());
    } else {
      report<Msg::TP3006>(call, status.code(), cause_of(status));
    }
  } else {
    report<Msg::TP3005>(call, status.code());
  }
}

/// Says that a driver call failed while memory moved: as a mishap, or that the device is lost. The program
/// has made no such call, and is told so. Hook-safe.
inline void report_failed_call(const char* call, Status status) noexcept {
  if (loses_device(status)) {
    char own[96];
    std::snprintf(own, sizeof own, "%s (a call of Tidepool's, which moves memory)", call);
    return report_lost(own, status);
  }
  report<Msg::TP3001>(call, status.code());
}

}  // namespace tidepool::runtime
