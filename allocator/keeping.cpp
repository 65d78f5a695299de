// The part of Residency about blocks that stay on the device until they are freed.

#include <algorithm>

#include "allocator/residency.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

Residency::Promise::Promise(Residency& residency, Bytes span) noexcept : residency_(residency) {
  const std::lock_guard one(residency.promise_lock_);
  if (!residency.fits_without_unneeded([&] { return residency.may_keep(span); })) return;
  const std::lock_guard guard(residency.kept_lock_);
  residency.promised_ += span;
  left_ = span;
}

Residency::Promise::~Promise() {
  const std::lock_guard guard(residency_.kept_lock_);
  residency_.promised_ -= left_;
}

// With kept_lock_: what is kept by nothing but holds is counted.
template <class Change>
void Residency::change_reasons(Block& block, Change&& change) noexcept {
  const auto is_only_held = [&] { return block.holds != 0 && !block.is_kept_for_good; };
  const bool before = is_only_held();
  change();
  if (!before && is_only_held()) held_bytes_.fetch_add(block.span.count(), std::memory_order_relaxed);
  if (before && !is_only_held()) held_bytes_.fetch_sub(block.span.count(), std::memory_order_relaxed);
}

// True if the block was not kept before. Of another life than this one nothing is kept.
bool Residency::count_kept(Block& block, std::uint32_t life, Promise* promise, bool is_for_good) noexcept {
  const std::lock_guard guard(kept_lock_);
  const auto is_over = [&] {
    return block.load().state() == BlockState::kFreed || block.life.load(std::memory_order_acquire) != life;
  };
  if (is_over()) return false;
  change_reasons(block, [&] {
    if (is_for_good) {
      block.is_kept_for_good = true;
    } else {
      ++block.holds;
    }
  });
  if (block.kept.exchange(true)) return false;
  // A free that did not find the block kept has taken no lock (release_kept). It came before, then: the block
  // is freed, or has begun another life. State and kept are sequentially consistent on both sides, so one of
  // the two sees the other.
  if (is_over()) {
    change_reasons(block, [&] {
      block.is_kept_for_good = false;
      block.holds = 0;
    });
    block.kept.store(false);
    return false;
  }
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
    if (!count_kept(block, block.life.load(std::memory_order_acquire), promise, true)) {
      block.pins.fetch_sub(1, std::memory_order_release);
      continue;
    }
    uncount(block);
    // Freed in between: then the free saw no kept block, or takes it back as well; one of the two does.
    if (block.load().state() == BlockState::kFreed) release_kept(block);
  }
  return kOk;
}

Status Residency::hold(std::span<const BlockId> set, WorkName what, std::vector<Hold>& holds) noexcept {
  if (const Status status = make_resident(set, nullptr, what); !status.ok()) return status;
  for (const BlockId id : set) {
    Block& block = arena_.block(id);
    // Of a block that is freed meanwhile the hold is void: its life is over.
    const Hold hold{id, block.life.load(std::memory_order_acquire), block.base, block.span};
    const bool is_new = count_kept(block, hold.life, nullptr, false);
    // What was never touched would leave without being copied.
    block.touched.store(true, std::memory_order_release);
    holds.push_back(hold);
    if (!is_new) {
      block.pins.fetch_sub(1, std::memory_order_release);
      continue;
    }
    uncount(block);
    if (block.load().state() == BlockState::kFreed) release_kept(block);
  }
  return kOk;
}

// A graph that was made of a block names its addresses. Whoever frees the block, is given the same address
// again and launches the graph is right to do so.
Status Residency::renew(std::vector<Hold>& holds, std::uint64_t& seen, WorkName what) noexcept {
  const std::uint64_t frees = held_frees();
  if (frees == seen) return kOk;
  const auto is_over = [&](const Hold& hold) {
    return arena_.block(hold.id).life.load(std::memory_order_acquire) != hold.life;
  };
  std::vector<BlockId> others;
  bool all_are_there = true;
  for (const Hold& hold : holds) {
    if (!is_over(hold)) continue;
    for (Bytes at; at < hold.span; at += Arena::kChunk) {
      const BlockId id = arena_.find((hold.base + at).address());
      if (id == kNoBlock || arena_.block(id).load().state() == BlockState::kFreed) {
        all_are_there = false;
      } else if (others.empty() || others.back() != id) {
        others.push_back(id);
      }
    }
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  for (const Hold& hold : holds) {
    if (!is_over(hold)) std::erase(others, hold.id);
  }
  const std::size_t before = holds.size();
  if (!others.empty()) {
    if (const Status status = hold(others, what, holds); !status.ok()) return status;
  }
  // What is not there may come.
  if (!all_are_there) return kOk;
  holds.erase(std::remove_if(holds.begin(), holds.begin() + static_cast<std::ptrdiff_t>(before), is_over),
              holds.begin() + static_cast<std::ptrdiff_t>(before));
  seen = frees;
  return kOk;
}

void Residency::release(const Hold& hold) noexcept {
  const std::lock_guard guard(kept_lock_);
  Block& block = arena_.block(hold.id);
  const bool is_void = block.life.load(std::memory_order_acquire) != hold.life || block.holds == 0;
  if (is_void) return;
  change_reasons(block, [&] { --block.holds; });
  if (block.holds != 0 || block.is_kept_for_good) return;
  // Of a free at this very time either it sees the block counted, or we see it freed.
  count(block);
  if (block.load().state() == BlockState::kFreed) uncount(block);
  let_go(block);
}

// After the block was moved to kFreed. What is not kept has no reasons to be, and takes no lock that threads
// which only allocate and free would share; who is about to keep it looks again (count_kept).
void Residency::release_kept(Block& block) noexcept {
  if (!block.kept.load(std::memory_order_seq_cst)) return;
  const std::lock_guard guard(kept_lock_);
  if (block.holds != 0) held_frees_.fetch_add(1, std::memory_order_release);
  change_reasons(block, [&] {
    block.is_kept_for_good = false;
    block.holds = 0;
  });
  let_go(block);
}

void Residency::publish_kept() noexcept {
  sums_.set(Metric::kept_bytes, kept().count());
  sums_.set(Metric::held_bytes, held_bytes_.load(std::memory_order_relaxed));
}

// With kept_lock_.
void Residency::let_go(Block& block) noexcept {
  if (!block.kept.exchange(false)) return;
  block.pins.fetch_sub(1, std::memory_order_release);
  kept_bytes_.fetch_sub(block.span.count(), std::memory_order_relaxed);
}

Bytes Residency::least() const noexcept {
  const std::lock_guard guard(kept_lock_);
  return kept() + promised_ + std::max(largest(), Bytes(largest_set_.load(std::memory_order_relaxed)));
}

bool Residency::may_keep(Bytes span) noexcept {
  return fits(least() + span);
}

}  // namespace tidepool::runtime
