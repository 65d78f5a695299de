#include "allocator/block.h"

#include <algorithm>

namespace tidepool::runtime {

const char* to_string(BlockState state) noexcept {
  switch (state) {
    case BlockState::kFreed:
      return "freed";
    case BlockState::kReserved:
      return "reserved";
    case BlockState::kBinding:
      return "binding";
    case BlockState::kIncoming:
      return "incoming";
    case BlockState::kResident:
      return "resident";
    case BlockState::kChosen:
      return "chosen";
    case BlockState::kStarting:
      return "starting";
    case BlockState::kOutgoing:
      return "outgoing";
    case BlockState::kUnmapping:
      return "unmapping";
    case BlockState::kOut:
      return "out";
    case BlockState::kParked:
      return "parked";
  }
  return "?";
}

void Block::forget_uses() noexcept {
  for (auto& use : uses) use.store(0, std::memory_order_relaxed);
  used_widely.store(false, std::memory_order_relaxed);
}

Bytes Block::backed() const noexcept {
  Bytes sum;
  for (const Extent& extent : extents) sum += extent.size;
  return sum;
}

bool Block::is_open() const noexcept {
  return std::all_of(extents.begin(), extents.end(), [](const Extent& extent) { return extent.open; });
}

}  // namespace tidepool::runtime
