#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/block.h"

namespace tidepool::runtime {

/// Memory of the driver's own that is watched, not managed (TIDEPOOL_MODE=observe): which allocation holds an
/// address. Allocations have ids like managed blocks; an id serves again once its allocation is gone.
///
/// Addresses lie anywhere, and small allocations share pages of the driver. So a table in three steps: a span
/// of 16 GiB, a chunk of 2 MiB, and, in chunks that are shared or only partly used, a piece of 256 bytes (no
/// allocation is aligned to less: CUDA C++ Programming Guide, device memory accesses). What has been looked
/// up once is at most four loads away, however many allocations there are. Tables are never given back.
///
/// find() is lock-free and hook-safe; the rest takes a short lock and may allocate.
class ObservedMemory {
 public:
  static constexpr Bytes kPiece{256};

  struct Entry {
    BlockId id = kNoBlock;
    std::uint64_t base = 0;
    Bytes size;
    std::int32_t device = -1;
  };

  /// Never destroyed: hooks run until the process has ended.
  static ObservedMemory& instance() noexcept;
  ObservedMemory() = default;
  ~ObservedMemory();
  ObservedMemory(const ObservedMemory&) = delete;
  ObservedMemory& operator=(const ObservedMemory&) = delete;

  /// An allocation. One that starts where an older one did takes its place, whose end was not seen. kNoBlock:
  /// there is no memory to remember it, or the address is none.
  BlockId add(std::uint64_t base, Bytes size, std::int32_t device) noexcept;
  /// The allocation that starts at the address is no more; an empty entry if none does.
  Entry remove(std::uint64_t base) noexcept;
  /// All of a device.
  void remove_all(std::int32_t device) noexcept;

  /// The allocation that holds the address; kNoBlock: none.
  [[nodiscard]] BlockId find(std::uint64_t address) const noexcept {
    if (address >= kEnd) return kNoBlock;
    const Span* const span = spans_[address / kSpanBytes].load(std::memory_order_acquire);
    if (span == nullptr) return kNoBlock;
    const Chunk& chunk = span->chunks[address % kSpanBytes / kChunkBytes];
    const BlockId whole = chunk.whole.load(std::memory_order_acquire);
    if (whole != kNoBlock) return whole;
    const Pieces* const pieces = chunk.pieces.load(std::memory_order_acquire);
    if (pieces == nullptr) return kNoBlock;
    return pieces->ids[address % kChunkBytes / kPiece.count()].load(std::memory_order_acquire);
  }
  /// As Arena::finder().
  struct Finder {
    const ObservedMemory* memory;
    [[nodiscard]] static bool covers(std::uint64_t) noexcept { return true; }
    [[nodiscard]] BlockId at(std::uint64_t address) const noexcept { return memory->find(address); }
    // The driver puts memory side by side: who looks beside a piece finds another.
    [[nodiscard]] static BlockId beside(std::uint64_t) noexcept { return kNoBlock; }
  };
  [[nodiscard]] Finder finder() const noexcept { return {this}; }

  /// Allocated now.
  [[nodiscard]] Bytes held() const noexcept { return Bytes(held_.load(std::memory_order_relaxed)); }

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 49;  // addresses of the unified space
  static constexpr std::uint64_t kSpanBytes = std::uint64_t{16} << 30;
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;

  struct Pieces {
    std::atomic<BlockId> ids[kChunkBytes / kPiece.count()];
  };
  struct Chunk {
    std::atomic<BlockId> whole;
    std::atomic<Pieces*> pieces;
  };
  struct Span {
    Chunk chunks[kSpanBytes / kChunkBytes];
  };

  Chunk* chunk_at(std::uint64_t address) noexcept;
  bool fill(const Entry& entry, BlockId id) noexcept;
  bool fill_pieces(Chunk& chunk, std::uint64_t from, std::uint64_t to, BlockId id) noexcept;
  Entry remove_locked(BlockId id) noexcept;

  std::atomic<Span*> spans_[kEnd / kSpanBytes]{};
  std::atomic<std::uint64_t> held_{0};
  std::mutex lock_;
  std::vector<Entry> entries_{Entry{}};  // by id; lock_
  std::vector<BlockId> spare_ids_;       // lock_
};

}  // namespace tidepool::runtime
