// The part of Residency about blocks that stay on the device until they are freed.

#include <algorithm>

#include "allocator/residency.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

Residency::Promise::Promise(Residency& residency, Bytes span) noexcept : residency_(residency) {
  const std::lock_guard one(residency.promise_lock_);
  if (!residency.may_keep(span)) return;
  const std::lock_guard guard(residency.kept_lock_);
  residency.promised_ += span;
  left_ = span;
}

Residency::Promise::~Promise() {
  const std::lock_guard guard(residency_.kept_lock_);
  residency_.promised_ -= left_;
}

// True if the block was not kept before.
bool Residency::count_kept(Block& block, Promise* promise) noexcept {
  const std::lock_guard guard(kept_lock_);
  if (block.load().state() == BlockState::kFreed || block.kept.exchange(true)) return false;
  kept_bytes_.fetch_add(block.span.count(), std::memory_order_relaxed);
  if (promise != nullptr) {
    promised_ -= promise->left_;
    promise->left_ = Bytes();
  }
  return true;
}

Status Residency::keep(std::span<const BlockId> set, WorkName what, Promise* promise) noexcept {
  if (const Status status = make_resident(set, nullptr, what); !status.ok()) return status;
  for (const BlockId id : set) {
    Block& block = arena_.block(id);
    if (!count_kept(block, promise)) {
      block.pins.fetch_sub(1, std::memory_order_release);
      continue;
    }
    uncount(block);
    // Freed in between: then the free saw no kept block, or takes it back as well; one of the two does.
    if (block.load().state() == BlockState::kFreed) release_kept(block);
  }
  return kOk;
}

void Residency::release_kept(Block& block) noexcept {
  const std::lock_guard guard(kept_lock_);
  if (!block.kept.exchange(false)) return;
  block.pins.fetch_sub(1, std::memory_order_release);
  kept_bytes_.fetch_sub(block.span.count(), std::memory_order_relaxed);
}

Status Residency::refuse_to_keep(Bytes asked) noexcept {
  report_on<Msg::TP2004>(device_.number(), BytesText(asked).c_str(), BytesText(kept()).c_str(),
                         BytesText(pool_.limit()).c_str());
  return count_refusal();
}

Bytes Residency::least() const noexcept {
  const std::lock_guard guard(kept_lock_);
  return kept() + promised_ + std::max(largest(), Bytes(largest_set_.load(std::memory_order_relaxed)));
}

bool Residency::may_keep(Bytes span) noexcept {
  return fits(least() + span);
}

}  // namespace tidepool::runtime
