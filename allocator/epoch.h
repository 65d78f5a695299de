#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/support/units.h"

namespace tidepool::runtime {

/// Lets an evictor wait until no launch that started before now is still between its residency check and the
/// store of its tickets (design protocol 3).
///
/// Each launching thread owns a slot; it is odd while the thread is inside. Entering and the reads that
/// follow are sequentially consistent, as are the evictor's change of a block's state and its reads of the
/// slots: so either the launch sees the changed state, or the evictor sees the odd slot. No fences:
/// ThreadSanitizer does not understand them.
///
/// One registry per process. Threads that end give their slot back.
class EpochRegistry {
 public:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> value{0};
    std::atomic<bool> owned{false};
  };
  static constexpr std::uint32_t kMaxThreads = 4096;

  /// Never destroyed: hooks may run after static destructors.
  static EpochRegistry& instance() noexcept;

  /// The calling thread's slot; null when more than kMaxThreads threads launch at once (such a thread takes
  /// the slow path, where pins protect it). Hook-safe after the first call of a thread.
  Slot* mine() noexcept;

  /// Waits until every slot that is odd now has changed; false if `bound` passed first. Spins and yields; the
  /// caller's own slot must be even.
  bool quiesce(Nanos bound) noexcept;

  /// In a forked child: the threads that owned the slots are gone.
  void reset_after_fork() noexcept;

 private:
  EpochRegistry() = default;

  Slot slots_[kMaxThreads];
  std::atomic<std::uint32_t> high_water_{0};
};

/// Holds the calling thread's slot odd. A null slot is allowed and does nothing.
class EpochGuard {
 public:
  explicit EpochGuard(EpochRegistry::Slot* slot) noexcept : slot_(slot) {
    if (slot_ != nullptr) slot_->value.fetch_add(1, std::memory_order_seq_cst);
  }
  ~EpochGuard() { leave(); }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

  void leave() noexcept {
    if (slot_ == nullptr) return;
    // Only the owner writes its slot: no read-modify-write needed to leave.
    slot_->value.store(slot_->value.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    slot_ = nullptr;
  }

 private:
  EpochRegistry::Slot* slot_;
};

}  // namespace tidepool::runtime
