#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "allocator/device.h"
#include "allocator/host_arena.h"

namespace tidepool::runtime {

/// Index of a block in the arena's block table; 0 is "no block".
using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = 0;

/// Where a block stands. docs/explanation/residency.md has the table of all edges.
enum class BlockState : std::uint8_t {
  kFreed,      ///< The program does not own it. Address and backing may be kept together for reuse.
  kResident,   ///< Mapped, contents in place.
  kReserved,   ///< Allocated, never touched: an address without memory behind it.
  kBinding,    ///< The slow path is giving it memory. Not observable for long.
  kIncoming,   ///< Mapped; its contents are on their way in. Users order themselves after that copy.
  kChosen,     ///< To leave; still mapped and valid, and nothing is under way. A user takes it back to
               ///< kResident.
  kStarting,   ///< The slow path is enqueueing a copy out. Not observable for long.
  kOutgoing,   ///< Still mapped and valid; a copy out is under way. A user takes it back to kResident and
               ///< orders itself after that copy, which is void then.
  kUnmapping,  ///< The copy out is done, the memory is being taken away. Not observable for long.
  kOut,        ///< Contents are in the host arena only.
  kParked,     ///< Contents are in its memory, which has no address just now (TIDEPOOL_CHECK=unmap).
};

/// A launch need do nothing for it: it is there, or its name was a stale word in the parameters.
constexpr bool is_usable(BlockState state) noexcept {
  return state <= BlockState::kResident;
}

const char* to_string(BlockState state) noexcept;

/// State and a count of transitions in one word, so that a compare-and-swap notices a block that left a state
/// and came back to it.
class StateWord {
 public:
  constexpr StateWord() = default;
  constexpr explicit StateWord(std::uint64_t raw) : raw_(raw) {}
  [[nodiscard]] constexpr BlockState state() const noexcept { return static_cast<BlockState>(raw_ & 0xff); }
  [[nodiscard]] constexpr StateWord next(BlockState state) const noexcept {
    return StateWord((((raw_ >> 8) + 1) << 8) | static_cast<std::uint64_t>(state));
  }
  [[nodiscard]] constexpr std::uint64_t raw() const noexcept { return raw_; }
  constexpr bool operator==(const StateWord&) const = default;

 private:
  std::uint64_t raw_ = 0;
};

/// One use of a block by a stream: everything the stream had enqueued up to and including `ticket`.
/// Packed into a word so that launching threads store it without a lock; zero is "no use".
class Use {
 public:
  constexpr Use() = default;
  constexpr Use(std::uint16_t stream, std::uint64_t ticket)
      : raw_((static_cast<std::uint64_t>(stream) << kTicketBits) | ticket) {}
  constexpr static Use from_raw(std::uint64_t raw) noexcept {
    Use use;
    use.raw_ = raw;
    return use;
  }
  [[nodiscard]] constexpr std::uint16_t stream() const noexcept {
    return static_cast<std::uint16_t>(raw_ >> kTicketBits);
  }
  [[nodiscard]] constexpr std::uint64_t ticket() const noexcept {
    return raw_ & ((std::uint64_t{1} << kTicketBits) - 1);
  }
  [[nodiscard]] constexpr std::uint64_t raw() const noexcept { return raw_; }
  constexpr explicit operator bool() const noexcept { return raw_ != 0; }
  constexpr bool operator==(const Use&) const = default;

 private:
  static constexpr int kTicketBits = 48;  // 2^48 launches on one stream: 8,900 years at 1 per ms
  std::uint64_t raw_ = 0;
};

/// An allocation of the program: where it starts, what was asked for, and what whoever allocated it has noted
/// with it (the pool that it counts for, say). A zero size is none.
struct Allocation {
  DevicePtr base;
  Bytes size;
  std::uint8_t tag = 0;
};

/// A block that somebody needs to stay for a time (Residency::hold). `life`: which allocation at its address.
struct Hold {
  BlockId id = kNoBlock;
  std::uint32_t life = 0;
  DevicePtr base{};  ///< what is named is addresses, also when the block is freed (Residency::renew)
  Bytes span{};
  constexpr bool operator==(const Hold&) const = default;
};

/// A piece of physical memory behind part of a block.
struct Extent {
  PhysicalHandle handle{};
  Bytes size;
  bool mapped = false;
  bool open = false;  ///< mapped, and the device may read and write it
};

/// One managed allocation of the program, or a slab that small ones share.
///
/// The first group is read and written by launching threads without a lock. The second group belongs to
/// whoever holds the block in a transitional state (kBinding, kUnmapping), else to the arena's lock.
/// What a launch looks at comes first and fits into one cache line.
struct alignas(64) Block {
  static constexpr int kUseSlots = 4;

  std::atomic<std::uint64_t> word{0};
  /// Who needs it to stay: launches between check and enqueue, slabs, everything after a capture began.
  std::atomic<std::uint32_t> pins{0};
  /// Set when a fifth stream uses the block: then it is idle only when the whole device has passed. Uses
  /// outlive an allocation: whoever is given the memory next has to respect them.
  std::atomic<bool> used_widely{false};
  /// Anything was enqueued that could have written to it since it was allocated.
  std::atomic<bool> touched{false};
  /// Value of the launch counter at the last use; the evictor takes the smallest.
  std::atomic<std::uint64_t> last_use{0};
  std::array<std::atomic<std::uint64_t>, kUseSlots> uses{};
  Bytes span;  ///< whole granules; what is mapped and accounted
  /// For kIncoming: the copy-in that users must be ordered after.
  std::atomic<std::uint64_t> incoming{0};
  /// For kOutgoing: the copy-out that whoever takes the block back must be ordered after, since it still
  /// reads; none while there is only a hash.
  std::atomic<std::uint64_t> outgoing{0};
  /// The hash that is made meanwhile. Nobody is ordered after it: it only reads, and is void then.
  std::atomic<std::uint64_t> hashing{0};

  DevicePtr base;
  std::atomic<std::uint64_t> requested_bytes{0};  ///< what the program asked for; stale when freed
  std::atomic<std::uint8_t> tag{0};               ///< Allocation::tag; stale when freed
  std::vector<Extent> extents;                    ///< physical memory, in address order
  HostSlot host;                                  ///< where the contents are in kOut
  /// Not null: small allocations share it, and this is what knows them (SlabHeap).
  std::atomic<void*> slab{nullptr};
  /// Counted among the blocks that may move (Residency::count).
  std::atomic<bool> counted{false};
  /// Its place in the free list while it is kFreed; the list's alone.
  struct FreeLinks {
    BlockId older = kNoBlock, newer = kNoBlock;  // by age
    BlockId before = kNoBlock, next = kNoBlock;  // of one size and stream
    std::uint64_t age = 0;
    std::uint16_t stream = 0;
    std::uint16_t shard = 0;
  } free;
  /// How often it was freed: tells one allocation at this address from the next.
  std::atomic<std::uint32_t> life{0};
  /// The kOutgoing word from which it was taken back last after its copy had passed: the copy is whole. One
  /// that was still under way is not, since streams that are not ordered after it may write meanwhile.
  std::atomic<std::uint64_t> taken_whole{0};
  /// One of the pins is for as long as the block is allocated: slabs, and what may not move (see Runtime).
  std::atomic<bool> kept{false};
  /// Why it is kept: until it is freed, or as long as so many hold it (Residency::hold). With Residency's
  /// lock.
  bool is_kept_for_good = false;
  std::uint32_t holds = 0;

  [[nodiscard]] StateWord load() const noexcept { return StateWord(word.load(std::memory_order_seq_cst)); }
  bool move(StateWord from, BlockState to) noexcept {
    std::uint64_t expected = from.raw();
    return word.compare_exchange_strong(expected, from.next(to).raw(), std::memory_order_seq_cst);
  }
  /// Leaves a transitional state, which nobody else may leave.
  void settle(BlockState to) noexcept { word.store(load().next(to).raw(), std::memory_order_seq_cst); }

  /// A freed block that is pinned keeps its id: whoever has pinned it is still to see that it was freed.
  [[nodiscard]] bool is_pinned() const noexcept { return pins.load(std::memory_order_seq_cst) != 0; }
  [[nodiscard]] Bytes requested() const noexcept {
    return Bytes(requested_bytes.load(std::memory_order_relaxed));
  }
  void set_requested(Bytes size) noexcept { requested_bytes.store(size.count(), std::memory_order_relaxed); }

  /// Forgets all uses. Only while the block is idle and nobody launches on it.
  void forget_uses() noexcept;
  /// The one use that remains of what came before: the end of the block's last life, or its copy in. It takes
  /// the last place, since launches take what they find in the first for their own (Runtime::launch).
  void set_only_use(Use use) noexcept {
    forget_uses();
    uses.back().store(use.raw(), std::memory_order_release);
  }
  /// What set_only_use() has left.
  [[nodiscard]] Use left_use() const noexcept {
    return Use::from_raw(uses.back().load(std::memory_order_acquire));
  }
  [[nodiscard]] Bytes backed() const noexcept;
  /// All memory that it has can be read and written at its address.
  [[nodiscard]] bool is_open() const noexcept;
};

}  // namespace tidepool::runtime
