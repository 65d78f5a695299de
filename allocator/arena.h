#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "allocator/block.h"
#include "allocator/device.h"

namespace tidepool::runtime {

/// The address space of managed memory on one device: one reservation, cut into chunks of 2 MiB; a flat table
/// says for each chunk which block it belongs to, so that finding the block of an address is a range check, a
/// shift and a load. Also owns the block table.
///
/// Blocks are separated by at least one chunk that belongs to nobody, so that a pointer one past the end of a
/// block never names its neighbour, and one in front of it is known for what it is (Finder::beside).
///
/// find() and block() are lock-free and hook-safe; the rest takes a short lock.
class Arena {
 public:
  static constexpr Bytes kChunk = MiB(2);

  /// Reserves min(8 x device memory, 1 TiB) of addresses, halved until the driver grants it.
  /// `number` as in Runtime::create.
  static DeviceResult<Arena*> create(Device& device, unsigned number = 0) noexcept;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] DevicePtr base() const noexcept { return base_; }
  [[nodiscard]] Bytes size() const noexcept { return size_; }
  [[nodiscard]] bool contains(std::uint64_t address) const noexcept {
    return address - base_.address() < size_.count();
  }

  /// What find() needs, for whoever looks up many addresses: it fits into registers.
  class Finder {
   public:
    [[nodiscard]] bool covers(std::uint64_t address) const noexcept { return address - base_ < size_; }
    /// covers(), of any of the words from `words` on? May say so of words a little behind the arena: their
    /// offsets are compared without their lowest bits, two at a time.
    [[nodiscard]] bool covers_some(const std::byte* words, std::size_t many) const noexcept;
    /// Arena::find() for an address that covers() is true for.
    [[nodiscard]] BlockId at(std::uint64_t address) const noexcept {
      return chunks_[(address - base_) / kChunk.count()].load(std::memory_order_acquire);
    }
    /// For an address where at() finds nothing: the block that begins at most half a chunk (1 MiB) behind it,
    /// or ended less than that in front of it. A kernel may be given such a pointer to a block: to an array
    /// that counts from 1, or to the end of what it goes through backwards.
    [[nodiscard, gnu::noinline, gnu::cold]] BlockId beside(std::uint64_t address) const noexcept {
      const std::uint64_t offset = address - base_;
      const std::uint64_t chunk = offset / kChunk.count();
      const bool is_in_front = offset % kChunk.count() >= kChunk.count() / 2;
      if (is_in_front ? chunk + 1 == size_ / kChunk.count() : chunk == 0) return kNoBlock;
      return chunks_[is_in_front ? chunk + 1 : chunk - 1].load(std::memory_order_acquire);
    }

   private:
    friend class Arena;
    Finder(std::uint64_t base, std::uint64_t size, const std::atomic<BlockId>* chunks) noexcept
        : base_(base), size_(size), chunks_(chunks) {}

    std::uint64_t base_, size_;
    const std::atomic<BlockId>* chunks_;
  };
  [[nodiscard]] Finder finder() const noexcept { return {base_.address(), size_.count(), chunks_}; }

  /// The block whose chunks hold `address`; kNoBlock outside of blocks. The block may be freed by now.
  [[nodiscard]] BlockId find(std::uint64_t address) const noexcept {
    return contains(address) ? finder().at(address) : kNoBlock;
  }
  [[nodiscard]] Block& block(BlockId id) const noexcept { return blocks_[id]; }
  /// The table, by id.
  [[nodiscard]] Block* blocks() const noexcept { return blocks_; }
  /// The block's number in records, which is its own among all devices of the process.
  [[nodiscard]] std::uint32_t recorded(BlockId id) const noexcept { return first_recorded_ | id; }
  /// Ids in use are below this.
  [[nodiscard]] BlockId end_id() const noexcept { return end_id_.load(std::memory_order_acquire); }

  /// A block with `span` bytes of addresses (whole chunks), in state kReserved, with nothing behind it.
  DeviceResult<BlockId> add(Bytes requested, Bytes span) noexcept;
  /// Calls `visit(id, block)` for every block that is allocated, with the arena locked: the only way to look
  /// at blocks that another thread may free and allocate meanwhile.
  template <class Visit>
  void for_each_allocated(Visit&& visit) noexcept {
    const std::lock_guard guard(lock_);
    for (BlockId id = 1; id < end_id(); ++id) {
      if (blocks_[id].load().state() != BlockState::kFreed) visit(id, blocks_[id]);
    }
  }
  /// The same for those of `ids` that are allocated.
  template <class Visit>
  void for_each_allocated(std::span<const BlockId> ids, Visit&& visit) noexcept {
    const std::lock_guard guard(lock_);
    for (const BlockId id : ids) {
      if (blocks_[id].load().state() != BlockState::kFreed) visit(id, blocks_[id]);
    }
  }
  /// Takes back the id and the addresses of a freed block that has no memory and no pins.
  void remove(BlockId id) noexcept;

 private:
  // 1 TiB has fewer chunks, and so blocks, than this many bits can tell.
  static constexpr unsigned kIdBits = 24;

  Arena(Device& device, DevicePtr base, Bytes size, Block* blocks, std::atomic<BlockId>* chunks,
        unsigned number) noexcept;

  void fill_chunks(DevicePtr at, Bytes span, BlockId id) noexcept;
  DeviceResult<DevicePtr> take_addresses(Bytes span) noexcept;
  void give_addresses(DevicePtr at, Bytes span) noexcept;

  Device& device_;
  const DevicePtr base_;
  const Bytes size_;
  const std::uint32_t first_recorded_;
  Block* const blocks_;
  std::atomic<BlockId>* const chunks_;
  std::atomic<BlockId> end_id_{1};

  std::mutex lock_;
  std::vector<BlockId> spare_ids_;
  std::map<std::uint64_t, std::uint64_t> holes_;  // address -> bytes, coalesced
};

}  // namespace tidepool::runtime
