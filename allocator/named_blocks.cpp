#include "allocator/named_blocks.h"

#include <algorithm>
#include <vector>

#include "allocator/support/events.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

Status NamedBlocks::hold(std::span<const BlockId> ids, WorkName what) noexcept {
  std::vector<BlockId> more;
  {
    const std::lock_guard guard(lock_);
    for (const BlockId id : ids) {
      if (arena_.block(id).load().state() == BlockState::kFreed) continue;
      const auto known = held_.find(id);
      if (known == held_.end() || is_over(known->second)) more.push_back(id);
    }
  }
  if (more.empty()) return kOk;
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  std::vector<Hold> holds;
  if (const Status status = residency_.hold(more, what, holds); !status.ok()) return status;
  Bytes bytes;
  {
    const std::lock_guard guard(lock_);
    for (const Hold& hold : holds) {
      bytes += hold.span;
      Hold& mine = held_[hold.id];
      // Another thread was as fast.
      if (mine == hold) residency_.release(hold);
      mine = hold;
    }
  }
  residency_.publish_kept();
  emit<Ev::address_table>(static_cast<std::uint64_t>(holds.size()), bytes);
  return kOk;
}

Bytes NamedBlocks::held() const noexcept {
  const std::lock_guard guard(lock_);
  Bytes bytes;
  for (const auto& [id, hold] : held_) {
    if (!is_over(hold)) bytes += hold.span;
  }
  return bytes;
}

bool NamedBlocks::is_named(const Block& block) const noexcept {
  const std::uint64_t beside = Arena::kChunk.count() / 2;
  const std::uint64_t base = block.base.address();
  return tables_.names(base - beside, base + block.span.count() + beside);
}

// Whose kernels used them nobody saw, so they wait for the whole device.
bool NamedBlocks::let_go_of_unnamed() noexcept {
  if (tables_.is_full()) return false;
  Bytes bytes;
  {
    const std::lock_guard guard(lock_);
    std::erase_if(held_, [&](const auto& entry) {
      const Hold& hold = entry.second;
      if (is_over(hold)) return true;
      Block& block = arena_.block(hold.id);
      if (is_named(block)) return false;
      block.used_widely.store(true, std::memory_order_release);
      residency_.release(hold);
      bytes += hold.span;
      return true;
    });
  }
  if (bytes == Bytes()) return false;
  residency_.publish_kept();
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP2105>(BytesText(bytes).c_str());
  return true;
}

}  // namespace tidepool::runtime
