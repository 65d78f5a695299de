#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "allocator/arena.h"
#include "allocator/streams.h"

namespace tidepool::runtime {

/// Freed blocks, which keep their address and their memory together for the next allocation of their size
/// (design section 5). What a stream freed is at once free for allocations in that stream; for others once
/// the free has passed on the device. A block that was freed after the device had been waited for is free for
/// all.
///
/// Shards, so that threads which work in different streams meet no common lock. Within a shard, blocks are
/// chained twice: by age, and by size and stream. Finding one costs the logarithm of the number of sizes.
///
/// Every move of a block into and out of kFreed happens inside add(), take*() or undo_take(), under the lock
/// of the shard, which is held over no call of the driver that may block. Thread-safe; no allocation once the
/// sizes and streams of a program are known.
class FreeList {
 public:
  FreeList(Arena& arena, StreamTable& streams) noexcept : arena_(arena), streams_(streams) {}
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  /// Runs `move()`, which turns the block to kFreed and leaves in its uses what must pass before anybody may
  /// use the memory; or returns false and changes nothing. Adds the block if it did. `stream`: the index of a
  /// stream that may use it at once; 0: none.
  template <class Move>
  bool add(BlockId id, std::uint16_t stream, Move&& move) noexcept {
    return add_to(shard_for(stream), id, stream, move);
  }

  /// A block of `span` bytes, or of at most an eighth more, for an allocation in the stream with this index
  /// (0: for use at once in any stream). `settle(block)` moves it out of kFreed. kNoBlock if there is none.
  /// Prefers blocks with memory behind them.
  template <class Settle>
  BlockId take(Bytes span, std::uint16_t stream, Settle&& settle) noexcept;
  /// The same for one of `span` bytes whose free has not passed and which more streams than it remembers have
  /// not used: its uses are for the caller to wait for, or it is given back by undo_take(). `stream`: its
  /// index.
  template <class Settle>
  BlockId take_waiting(Bytes span, std::uint16_t stream, Settle&& settle) noexcept;
  /// The block goes back to where it was taken from. `move()` turns it to kFreed; false: it did not.
  template <class Move>
  bool undo_take(BlockId id, Move&& move) noexcept {
    const Block::FreeLinks& links = arena_.block(id).free;  // as unlink() left them
    return add_to(shards_[links.shard], id, links.stream, move);
  }

  /// The oldest block with memory that no work can touch any more and that `skip(id)` does not exclude; it
  /// leaves the list but stays kFreed, and only the caller knows it: put_back() or forget() must follow.
  /// kNoBlock: none.
  template <class Skip>
  BlockId take_oldest_idle(Skip&& skip) noexcept;
  void put_back(BlockId id) noexcept;

  /// A block on the list at some moment: `age` tells whether it has been away since.
  struct Entry {
    BlockId id = kNoBlock;
    std::uint64_t age = 0;
  };
  /// The oldest block that the latest take_oldest_idle() passed over because work may still touch it;
  /// kNoBlock if there was none.
  [[nodiscard]] Entry oldest_busy() const noexcept { return oldest_busy_; }
  /// After the whole device was waited for: the uses of the block are over, if it is still here.
  void forget_uses(Entry entry) noexcept;

  /// Gives the ids and addresses of blocks without memory back to the arena; false if there were none.
  bool return_addresses() noexcept;

  /// Memory behind the blocks.
  [[nodiscard]] Bytes bytes() const noexcept { return Bytes(bytes_.load(std::memory_order_relaxed)); }
  /// How often a block came in, or almost did.
  [[nodiscard]] std::uint64_t added() const noexcept { return added_.load(std::memory_order_seq_cst); }

  /// While one exists nothing comes or goes. For checks.
  class Held {
   public:
    explicit Held(FreeList& list) noexcept : list_(list) {
      for (Shard& shard : list_.shards_) shard.lock.lock();
    }
    ~Held() {
      for (Shard& shard : list_.shards_) shard.lock.unlock();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    template <class Visit>
    void for_each(Visit&& visit) const noexcept {
      for (const Shard& shard : list_.shards_) {
        for (BlockId id = shard.by_age.first; id != kNoBlock; id = list_.arena_.block(id).free.newer)
          visit(id);
      }
    }

   private:
    FreeList& list_;
  };

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::uint64_t kMostWaste = 8;  // of a reused block, at most one eighth
  static constexpr std::uint16_t kAnyStream = 0;
  static constexpr std::uint16_t kNoMemory = 0xffff;  // chain of blocks that are an address only
  static constexpr int kLook = 4;                     // blocks looked at in one chain

  enum Kind : std::size_t { kAddressOnly, kWithMemory };
  struct Ends {
    BlockId first = kNoBlock;
    BlockId last = kNoBlock;
  };
  /// Blocks of one size that one stream freed, oldest first.
  struct Chain {
    std::uint16_t stream;
    Ends ends;
  };
  struct alignas(64) Shard {
    std::mutex lock;
    // How many there are with and without memory; read without the lock, to pass by.
    std::array<std::atomic<std::uint32_t>, 2> counts{};
    Ends by_age;
    std::map<std::uint64_t, std::vector<Chain>> by_span;
  };

  static Kind kind_of(std::uint16_t stream) noexcept {
    return stream == kNoMemory ? kAddressOnly : kWithMemory;
  }
  /// Of blocks that a stream freed, its own; of others, the calling thread's.
  Shard& shard_for(std::uint16_t stream) noexcept;
  template <class Move>
  bool add_to(Shard& shard, BlockId id, std::uint16_t stream, Move&& move) noexcept {
    const std::lock_guard guard(shard.lock);
    // Counted first: whoever finds the block freed finds it counted.
    added_.fetch_add(1, std::memory_order_seq_cst);
    if (!move()) return false;
    link(shard, id, stream);
    return true;
  }
  void link(Shard& shard, BlockId id, std::uint16_t stream) noexcept;
  void unlink(Shard& shard, BlockId id) noexcept;
  Chain& chain_of(Shard& shard, const Block& block, std::uint16_t stream) noexcept;
  BlockId find(Shard& shard, Bytes span, std::uint16_t stream) noexcept;
  BlockId find_waiting(Shard& shard, Bytes span) noexcept;
  BlockId usable_in(const Chain& chain, std::uint16_t stream) noexcept;
  bool is_idle(const Block& block) noexcept;

  template <class Find, class Settle>
  BlockId search_shards(Shard& first, Kind kind, Find&& find, Settle&& settle) noexcept {
    const std::size_t start = static_cast<std::size_t>(&first - shards_.data());
    for (std::size_t i = 0; i < kShards; ++i) {
      Shard& shard = shards_[(start + i) % kShards];
      if (shard.counts[kind].load(std::memory_order_relaxed) == 0) continue;
      const std::lock_guard guard(shard.lock);
      const BlockId id = find(shard);
      if (id == kNoBlock) continue;
      unlink(shard, id);
      settle(arena_.block(id));
      return id;
    }
    return kNoBlock;
  }

  template <class Find, class Settle>
  BlockId search(Shard& first, Kind kind, Find&& find, Settle&& settle) noexcept {
    const BlockId id = search_shards(first, kind, find, settle);
    streams_.make_marks();  // not with a shard's lock: the driver may block
    return id;
  }

  Arena& arena_;
  StreamTable& streams_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::uint64_t> added_{0};
  std::atomic<std::uint64_t> newest_age_{0};
  std::atomic<std::uint64_t> bytes_{0};
  Entry oldest_busy_;  // slow path only
};

template <class Settle>
BlockId FreeList::take(Bytes span, std::uint16_t stream, Settle&& settle) noexcept {
  Shard& mine = shard_for(stream);
  const BlockId id = search(
      mine, kWithMemory, [&](Shard& shard) { return find(shard, span, stream); }, settle);
  if (id != kNoBlock) return id;
  return search(
      mine, kAddressOnly, [&](Shard& shard) { return find(shard, span, kNoMemory); }, settle);
}

template <class Settle>
BlockId FreeList::take_waiting(Bytes span, std::uint16_t stream, Settle&& settle) noexcept {
  return search_shards(
      shard_for(stream), kWithMemory, [&](Shard& shard) { return find_waiting(shard, span); }, settle);
}

template <class Skip>
BlockId FreeList::take_oldest_idle(Skip&& skip) noexcept {
  oldest_busy_ = {};
  std::uint64_t tried_after = 0;  // shards in the order of their oldest block
  for (std::size_t round = 0; round < kShards; ++round) {
    Shard* next = nullptr;
    std::uint64_t oldest = ~std::uint64_t{0};
    for (Shard& shard : shards_) {
      const std::lock_guard guard(shard.lock);
      if (shard.by_age.first == kNoBlock) continue;
      const std::uint64_t age = arena_.block(shard.by_age.first).free.age;
      if (age > tried_after && age < oldest) {
        oldest = age;
        next = &shard;
      }
    }
    if (next == nullptr) return kNoBlock;
    tried_after = oldest;
    const std::lock_guard guard(next->lock);
    for (BlockId id = next->by_age.first; id != kNoBlock; id = arena_.block(id).free.newer) {
      const Block& block = arena_.block(id);
      if (block.extents.empty() || skip(id)) continue;
      if (!is_idle(block)) {
        if (oldest_busy_.id == kNoBlock || block.free.age < oldest_busy_.age)
          oldest_busy_ = {id, block.free.age};
        continue;
      }
      unlink(*next, id);
      return id;
    }
  }
  return kNoBlock;
}

}  // namespace tidepool::runtime
