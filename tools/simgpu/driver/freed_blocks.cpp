#include "tools/simgpu/driver/freed_blocks.h"

#include <iterator>

namespace simgpu {

void FreedBlocks::add(const Block& block, std::uint64_t rounded) {
  const std::uint64_t low = block.base;
  const std::uint64_t high = low + rounded;
  auto it = ranges_.upper_bound(low);
  if (it != ranges_.begin() && std::prev(it)->second.end > low) --it;
  while (it != ranges_.end() && it->first < high) {
    const auto [start, range] = *it;
    it = ranges_.erase(it);
    if (start < low) ranges_.emplace(start, Range{low, range.number, range.block});
    if (range.end > high) ranges_.emplace(high, range);
  }
  ranges_.emplace(low, Range{high, next_++, block});
  // Each block adds two ranges at most, so this happens once in so many calls.
  if (ranges_.size() <= 4 * kRemembered) return;
  std::erase_if(ranges_, [&](const auto& entry) { return entry.second.number + kRemembered < next_; });
}

const FreedBlocks::Block* FreedBlocks::at(std::uint64_t address) const {
  const auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin() || std::prev(it)->second.end <= address) return nullptr;
  return &std::prev(it)->second.block;
}

}  // namespace simgpu
