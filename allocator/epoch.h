#pragma once

#include <atomic>
#include <cstdint>
#include <span>

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
    /// Which blocks the owner is launching on, while the value is odd: one bit for each (bit_of).
    std::atomic<std::uint64_t> touching{0};
    std::atomic<bool> owned{false};
  };
  /// The bit that stands for a block in Slot::touching. Several blocks share one: a set bit means "maybe".
  static constexpr std::uint64_t bit_of(std::uint32_t block) noexcept {
    return std::uint64_t{1} << (block % 64);
  }
  /// `bits |= bit_of(block)`, in the one instruction for it that compilers do not find.
  [[gnu::always_inline]] static void add_bit(std::uint64_t& bits, std::uint32_t block) noexcept {
#if defined(__x86_64__)
    asm("bts %1, %0" : "+r"(bits) : "r"(std::uint64_t{block}) : "cc");
#else
    bits |= bit_of(block);
#endif
  }
  /// The bits of them all.
  static constexpr std::uint64_t bits_of(std::span<const std::uint32_t> blocks) noexcept {
    std::uint64_t bits = 0;
    for (const std::uint32_t block : blocks) bits |= bit_of(block);
    return bits;
  }
  static constexpr std::uint32_t kMaxThreads = 4096;

  /// Never destroyed: hooks may run after static destructors.
  static EpochRegistry& instance() noexcept;

  /// The calling thread's slot; null when more than kMaxThreads threads launch at once (such a thread takes
  /// the slow path, where pins protect it). Hook-safe after the first call of a thread.
  Slot* mine() noexcept {
    Slot* const slot = t_slot;
    return slot != nullptr ? slot : take_slot();
  }

  /// A small number of the calling thread, the same while it lives; 0 where it has no slot. Hook-safe as
  /// mine().
  std::uint32_t my_number() noexcept {
    const Slot* slot = mine();
    return slot != nullptr ? static_cast<std::uint32_t>(slot - slots_) : 0;
  }

  /// Waits until every slot that is odd now has changed. Those that have not when `bound` is over are stuck
  /// in the driver (a full queue, say): the answer has the bits of the blocks that they launch on. Zero:
  /// nobody is stuck. Spins and yields; the caller's own slot must be even.
  std::uint64_t quiesce(Nanos bound) noexcept;

  /// `hook(context)` is called on each thread that ends after it had a slot, until it is taken away. It may
  /// wait; several threads may be in it. `context` is not null and names the hook. False: there are too many.
  bool add_exit_hook(void (*hook)(void* context), void* context) noexcept;
  /// Waits for calls of it that are under way.
  void remove_exit_hook(void* context) noexcept;

  /// In a forked child: the threads that owned the slots are gone, and hooks with them: what they are about
  /// is the parent's.
  void reset_after_fork() noexcept;

 private:
  EpochRegistry() = default;

  Slot* take_slot() noexcept;
  static void give_back(void* slot) noexcept;

  // initial-exec: no allocation and no call into the dynamic linker on access.
  static constinit thread_local Slot* t_slot __attribute__((tls_model("initial-exec")));

  Slot slots_[kMaxThreads];
  std::atomic<std::uint32_t> high_water_{0};
};

/// Holds the calling thread's slot odd. A null slot is allowed and does nothing.
class EpochGuard {
 public:
  /// `touching`: the bits of all blocks of the launch.
  EpochGuard(EpochRegistry::Slot* slot, std::uint64_t touching) noexcept : slot_(slot) {
    if (slot_ == nullptr) return;
    slot_->touching.store(touching, std::memory_order_relaxed);
    slot_->value.fetch_add(1, std::memory_order_seq_cst);
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
