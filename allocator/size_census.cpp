#include "allocator/size_census.h"

namespace tidepool::runtime {

Bytes SizeCensus::largest() const noexcept {
  for (std::size_t c = kClasses; c-- > 3 * kSteps;) {
    if (counts_[c].load(std::memory_order_relaxed) == 0) continue;
    const std::size_t power = c / kSteps;
    return Bytes(((std::uint64_t{kSteps} + c % kSteps + 1) << power) / kSteps);
  }
  for (std::size_t c = kSteps; c-- > 0;) {
    if (counts_[c].load(std::memory_order_relaxed) != 0) return Bytes(c + 1);
  }
  return {};
}

}  // namespace tidepool::runtime
