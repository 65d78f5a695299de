#include "allocator/observed_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tidepool::runtime {
namespace {

// Zero pages that cost memory only where they are used.
template <class T>
T* lazy_zeroes() noexcept {
  void* const at =
      ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<T*>(at);
}

}  // namespace

ObservedMemory& ObservedMemory::instance() noexcept {
  alignas(ObservedMemory) static std::byte storage[sizeof(ObservedMemory)];
  static ObservedMemory* const only = ::new (storage) ObservedMemory;
  return *only;
}

ObservedMemory::~ObservedMemory() {
  for (auto& place : spans_) {
    Span* const span = place.load(std::memory_order_relaxed);
    if (span == nullptr) continue;
    for (Chunk& chunk : span->chunks) {
      if (Pieces* const pieces = chunk.pieces.load(std::memory_order_relaxed))
        ::munmap(pieces, sizeof *pieces);
    }
    ::munmap(span, sizeof *span);
  }
}

ObservedMemory::Chunk* ObservedMemory::chunk_at(std::uint64_t address) noexcept {
  std::atomic<Span*>& place = spans_[address / kSpanBytes];
  Span* span = place.load(std::memory_order_relaxed);
  if (span == nullptr) {
    span = lazy_zeroes<Span>();
    if (span == nullptr) return nullptr;
    place.store(span, std::memory_order_release);
  }
  return &span->chunks[address % kSpanBytes / kChunkBytes];
}

// [from, to) are offsets within the chunk.
bool ObservedMemory::fill_pieces(Chunk& chunk, std::uint64_t from, std::uint64_t to, BlockId id) noexcept {
  Pieces* pieces = chunk.pieces.load(std::memory_order_relaxed);
  if (pieces == nullptr) {
    if (id == kNoBlock) return true;
    pieces = lazy_zeroes<Pieces>();
    if (pieces == nullptr) return false;
    chunk.pieces.store(pieces, std::memory_order_release);
  }
  const std::uint64_t end = (to + kPiece.count() - 1) / kPiece.count();
  for (std::uint64_t i = from / kPiece.count(); i < end; ++i)
    pieces->ids[i].store(id, std::memory_order_release);
  return true;
}

bool ObservedMemory::fill(const Entry& entry, BlockId id) noexcept {
  const std::uint64_t end = entry.base + entry.size.count();
  for (std::uint64_t at = entry.base; at < end;) {
    const std::uint64_t chunk_base = at / kChunkBytes * kChunkBytes;
    const std::uint64_t next = std::min(end, chunk_base + kChunkBytes);
    Chunk* const chunk = chunk_at(at);
    if (chunk == nullptr) return false;
    if (next - at == kChunkBytes) {
      chunk->whole.store(id, std::memory_order_release);
    } else if (!fill_pieces(*chunk, at - chunk_base, next - chunk_base, id)) {
      return false;
    }
    at = next;
  }
  return true;
}

BlockId ObservedMemory::add(std::uint64_t base, Bytes size, std::int32_t device) noexcept {
  if (base == 0 || size == Bytes() || base >= kEnd || size.count() > kEnd - base) return kNoBlock;
  const std::lock_guard guard(lock_);
  if (const BlockId old = find(base); old != kNoBlock && entries_[old].base == base) (void)remove_locked(old);
  BlockId id = static_cast<BlockId>(entries_.size());
  if (!spare_ids_.empty()) {
    id = spare_ids_.back();
    spare_ids_.pop_back();
  } else {
    entries_.emplace_back();
  }
  entries_[id] = {id, base, size, device};
  if (!fill(entries_[id], id)) {
    (void)fill(entries_[id], kNoBlock);
    entries_[id] = {};
    spare_ids_.push_back(id);
    return kNoBlock;
  }
  held_.fetch_add(size.count(), std::memory_order_relaxed);
  return id;
}

ObservedMemory::Entry ObservedMemory::remove_locked(BlockId id) noexcept {
  const Entry entry = entries_[id];
  (void)fill(entry, kNoBlock);
  entries_[id] = {};
  spare_ids_.push_back(id);
  held_.fetch_sub(entry.size.count(), std::memory_order_relaxed);
  return entry;
}

ObservedMemory::Entry ObservedMemory::remove(std::uint64_t base) noexcept {
  const std::lock_guard guard(lock_);
  const BlockId id = find(base);
  return id != kNoBlock && entries_[id].base == base ? remove_locked(id) : Entry{};
}

void ObservedMemory::remove_all(std::int32_t device) noexcept {
  const std::lock_guard guard(lock_);
  for (BlockId id = 1; id < entries_.size(); ++id) {
    if (entries_[id].id == id && entries_[id].device == device) (void)remove_locked(id);
  }
}

}  // namespace tidepool::runtime
