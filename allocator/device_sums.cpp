#include "allocator/device_sums.h"

#include "allocator/streams.h"

namespace tidepool::runtime {

constinit std::atomic<unsigned> DeviceSums::devices{0};

DeviceSums::Values& DeviceSums::values_of(unsigned number) noexcept {
  struct alignas(64) Own {
    Values values;
  };
  static constinit std::array<Own, kMostDevices> all{};
  return all[number].values;
}

DeviceSums::DeviceSums(unsigned number) noexcept : mine_(values_of(number)) {
  unsigned seen = devices.load(std::memory_order_relaxed);
  while (seen <= number && !devices.compare_exchange_weak(seen, number + 1, std::memory_order_relaxed)) {
  }
}

// Not kept as a running sum: of two threads that change it at once, the difference of one could be there
// before what it undoes, and the peak would remember that.
std::uint64_t DeviceSums::sum_of(Metric metric) noexcept {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < devices.load(std::memory_order_relaxed); ++i) {
    sum += values_of(i)[static_cast<std::size_t>(metric)].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace tidepool::runtime
