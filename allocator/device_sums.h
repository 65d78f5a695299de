#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

/// One device's part of the process' numbers: what the stats page has is the sum over all devices. Those of a
/// device that is managed anew take the place of the old ones.
///
/// Hook-safe and thread-safe: relaxed atomic operations, two for each device so far.
class DeviceSums {
 public:
  /// `number`: which device, below kMostDevices (streams.h).
  explicit DeviceSums(unsigned number) noexcept;

  /// The device's own value; publishes the sum and returns it.
  std::uint64_t set(Metric metric, std::uint64_t value) noexcept {
    mine_[static_cast<std::size_t>(metric)].store(value, std::memory_order_relaxed);
    const std::uint64_t sum = devices.load(std::memory_order_relaxed) == 1 ? value : sum_of(metric);
    StatsPage::instance().set(metric, sum);
    return sum;
  }
  /// The same, and `peak` is the highest sum so far.
  void set(Metric metric, std::uint64_t value, Metric peak) noexcept {
    StatsPage::instance().raise(peak, set(metric, value));
  }

 private:
  using Values = std::array<std::atomic<std::uint64_t>, kMetricCount>;

  static std::uint64_t sum_of(Metric metric) noexcept;
  static Values& values_of(unsigned number) noexcept;

  static std::atomic<unsigned> devices;  // their numbers are below
  Values& mine_;
};

}  // namespace tidepool::runtime
