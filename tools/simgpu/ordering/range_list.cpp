#include "tools/simgpu/ordering/range_list.h"

#include <algorithm>

namespace simgpu::ordering {
namespace {

using Range = RangeList::Range;

/// Blocks declare the same few ranges, or ones next to those of the block before.
constexpr std::size_t kLookBack = 12;

bool touch(const Range& a, const Range& b) {
  return a.write == b.write && a.low <= b.high && b.low <= a.high;
}

void extend(Range* range, const Range& more) {
  range->low = std::min(range->low, more.low);
  range->high = std::max(range->high, more.high);
}

}  // namespace

void RangeList::add(std::uint64_t low, std::uint64_t bytes, bool write) {
  if (bytes == 0) return;
  const Range range{low, low + bytes, write};
  const std::size_t oldest = count_ > kLookBack ? count_ - kLookBack : 0;
  for (std::size_t i = count_; i > oldest; --i) {
    if (touch(ranges_[i - 1], range)) return extend(&ranges_[i - 1], range);
  }
  if (count_ == kLimit) {
    compact();
    // Half of it free, or every further piece would sort everything again.
    while (count_ > kLimit / 2) coarsen();
  }
  ranges_[count_++] = range;
}

void RangeList::compact() {
  std::sort(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(count_),
            [](const Range& a, const Range& b) { return a.write != b.write ? b.write : a.low < b.low; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (kept > 0 && touch(ranges_[kept - 1], ranges_[i])) {
      extend(&ranges_[kept - 1], ranges_[i]);
    } else {
      ranges_[kept++] = ranges_[i];
    }
  }
  count_ = kept;
}

void RangeList::coarsen() {
  coarse_ = true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Range range = ranges_[i];
    if (i + 1 < count_ && ranges_[i + 1].write == range.write) extend(&range, ranges_[++i]);
    ranges_[kept++] = range;
  }
  count_ = kept;
}

std::span<const Range> RangeList::merged() {
  compact();
  return {ranges_.data(), count_};
}

}  // namespace simgpu::ordering
