#pragma once

#include <cstdint>
#include <vector>

#include "allocator/arena.h"
#include "allocator/host_arena.h"
#include "allocator/support/content_hash.h"

namespace tidepool::runtime {

/// What the host has, or had, of each block: a copy in a slot that outlives the block's way back to the
/// device, the hash of what was copied last, and how often the block left as it had come. With it a block
/// that nothing has changed leaves without a copy (docs/explanation/decisions/0022).
///
/// A copy and its hash belong together; whether they are what the block holds is another question, which only
/// a new hash of the block answers. Copies are spare: the host tier takes their room when it needs it, and
/// grows for those only of which it is known that they save copies.
///
/// For the owner of the slow path; not thread-safe. What it knows of a block ends with Block::life.
class HostCopies {
 public:
  HostCopies(Arena& arena, HostArena& host) noexcept : arena_(arena), host_(host) {}
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// What the block's last copy had for content; null: not known.
  [[nodiscard]] const ContentHash* hash_of(BlockId id) noexcept;
  /// There is a copy in host memory, and its hash is known.
  [[nodiscard]] bool has_copy(BlockId id) noexcept;
  /// Is a look before the copy likely to save it? Not for blocks that have always been changed.
  [[nodiscard]] bool is_promising(BlockId id) noexcept;
  /// Is it worth to hash the block while it is copied, so that the next time there is something to compare
  /// with? Asked once for each copy. Always, but for blocks that have always been changed: then now and then.
  [[nodiscard]] bool is_worth_a_hash(BlockId id) noexcept;

  /// The copy's slot, which is the caller's now; empty if there is none.
  HostSlot take(BlockId id) noexcept;
  /// Keeps a slot whose content has the hash that is known here; gives it back to the host tier where that
  /// would be of no use. The block is on the device.
  void keep(BlockId id, HostSlot slot) noexcept;
  /// The block's content was found to have this hash when it was about to leave.
  void note(BlockId id, const ContentHash& hash) noexcept;
  /// The block was copied and nobody knows the hash of what.
  void forget_hash(BlockId id) noexcept;

  /// A slot of `size` bytes (whole granules) for a block that leaves. Room is, in this order: pinned memory
  /// that is free; copies that have saved nothing yet; memory that is pinned for it; other copies.
  DeviceResult<HostSlot> make_slot(Bytes size) noexcept;
  /// Gives back the copies of blocks that were freed.
  void sweep() noexcept;

  /// Bytes in slots of copies.
  [[nodiscard]] Bytes held() const noexcept { return held_; }
  /// Null, or the first invariant that is broken.
  [[nodiscard]] const char* check() const noexcept;

 private:
  static constexpr int kRecent = 4;            // times a block left that count
  static constexpr std::uint32_t kSeldom = 8;  // of so many times that it leaves, one gets a hash

  struct Record {
    std::uint32_t life = 0;
    std::uint32_t copies = 0;    ///< without promise, that is_worth_a_hash() was asked about
    std::uint8_t compared = 0;   ///< of the last kRecent, how many were compared
    std::uint8_t unchanged = 0;  ///< one bit each, the latest lowest: it was what it had been
    bool hash_known = false;
    ContentHash hash{};
    HostSlot slot;
  };

  Record& record(BlockId id) noexcept;
  void release(Record& record) noexcept;
  bool drop_one(bool proven) noexcept;

  Arena& arena_;
  HostArena& host_;
  std::vector<Record> records_;  // by id
  Bytes held_;
};

/// Bytes of a slot's runs.
[[nodiscard]] Bytes size_of(const HostSlot& slot) noexcept;

}  // namespace tidepool::runtime
