#include "tools/simgpu/driver/pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/round_up.h"

namespace simgpu {

Pool::Pool(Driver& driver, Gpu& gpu, const CUmemPoolProps& props)
    : driver_(driver), gpu_(gpu), props_(props) {
  access_[static_cast<std::size_t>(gpu.ordinal)] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/// With `may_wait`, also a piece whose free the allocation then waits for.
std::optional<Pool::Place> Pool::find(std::uint64_t size, const Stream& stream, bool may_wait) {
  std::optional<Place> best;
  for (auto& [base, chunk] : chunks_) {
    for (auto it = chunk.pieces.begin(); it != chunk.pieces.end(); ++it) {
      const Piece& piece = it->second;
      if (piece.live || piece.size < size || (best && best->piece->second.size <= piece.size)) continue;
      const bool follows = !piece.freed || driver_.follows(stream, *piece.freed);
      // The wait that an event has put there already changes nothing, but the ledger's knowledge is bounded.
      const bool ordered = follows || (follow_events_ && driver_.ledger.precedes(*piece.freed, stream));
      if (ordered || may_wait) best = Place{&chunk, it, !follows};
    }
  }
  return best;
}

CUresult Pool::grow(std::uint64_t size) {
  const std::uint64_t bytes = round_up(size, kFrameBytes);
  if (props_.maxSize != 0 && bytes > props_.maxSize - std::min(reserved_, props_.maxSize)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::uint64_t base = 0;
  CUresult result = driver_.heap.new_segment(gpu_, bytes, &base);
  if (result != CUDA_SUCCESS) return result;
  for (std::size_t i = 0; i < access_.size(); ++i) {
    if (access_[i] == CU_MEM_ACCESS_FLAGS_PROT_NONE || static_cast<int>(i) == gpu_.ordinal) continue;
    driver_.space.set_access(base, bytes, static_cast<int>(i), access_[i], true);
  }
  Chunk& chunk = chunks_[base];
  chunk.size = bytes;
  chunk.pieces[base].size = bytes;
  reserved_ += bytes;
  reserved_high_ = std::max(reserved_high_, reserved_);
  return CUDA_SUCCESS;
}

/// In this order: what is free already; more memory; memory whose free the allocation then waits for; more
/// memory after what is free was given back, here and by the other pools of the device. A pool that may be
/// opportunistic lets everything run before that, so that no chance decides what is free.
CUresult Pool::make_room(std::uint64_t size, const std::shared_ptr<Stream>& stream, Place* out) {
  std::optional<Place> place = find(size, *stream, false);
  CUresult result = CUDA_SUCCESS;
  if (!place) {
    result = grow(size);
    place = find(size, *stream, false);
  }
  if (!place && internal_dependencies_) place = find(size, *stream, true);
  if (!place) {
    if (opportunistic_) driver_.scheduler.run_all();
    for (const auto& [handle, pool] : driver_.pools) {
      if (&pool->gpu_ == &gpu_) pool->trim(0, opportunistic_ ? Free::kHasRun : Free::kHostKnows);
    }
    result = grow(size);
    place = find(size, *stream, opportunistic_);
  }
  if (!place) return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
  *out = *place;
  return CUDA_SUCCESS;
}

CUresult Pool::allocate(std::uint64_t size, Context* owner, const std::shared_ptr<Stream>& stream,
                        std::uint64_t* out) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > gpu_.physical.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t rounded = round_up(size, kAllocationAlignment);
  // Making room can run host functions, without the device lock: the program may destroy the pool there.
  const std::shared_ptr<Pool> self = shared_from_this();
  Place place;
  const CUresult result = make_room(rounded, stream, &place);
  if (result != CUDA_SUCCESS) return result;
  const std::uint64_t base = place.piece->first;
  Operation operation;
  if (place.wait) operation.waits.push_back(*place.piece->second.freed);
  take(place, rounded, size, owner);
  operation.work = PoolChange{self, base, rounded, true, place.piece->second.use};
  driver_.scheduler.enqueue(stream, std::move(operation));
  *out = base;
  return CUDA_SUCCESS;
}

void Pool::take(const Place& place, std::uint64_t rounded, std::uint64_t size, Context* owner) {
  Piece& piece = place.piece->second;
  const std::uint64_t base = place.piece->first;
  if (piece.size > rounded) {
    Piece rest = piece;
    rest.size -= rounded;
    place.chunk->pieces.emplace(base + rounded, rest);
    piece.size = rounded;
  }
  piece.live = true;
  piece.freed.reset();
  piece.use = std::make_shared<PieceUse>();
  ++live_;
  count_used(static_cast<std::int64_t>(rounded));
  PlainBlock block;
  block.base = base;
  block.size = size;
  block.rounded = rounded;
  block.segment = base;
  block.owner = owner;
  block.pool = this;
  driver_.heap.adopt(block);
}

CUresult Pool::reserve(std::uint64_t size, std::uint64_t* out) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > gpu_.physical.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t rounded = round_up(size, kFrameBytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto& [start, chunk] : chunks_) {
      for (auto it = chunk.pieces.begin(); it != chunk.pieces.end(); ++it) {
        const Piece& piece = it->second;
        if (piece.live || piece.size < rounded || (piece.freed && !driver_.host_knows(*piece.freed)))
          continue;
        *out = it->first;
        take(Place{&chunk, it, false}, rounded, size, nullptr);
        return CUDA_SUCCESS;
      }
    }
    const CUresult grown = attempt == 0 ? grow(rounded) : CUDA_ERROR_OUT_OF_MEMORY;
    if (grown != CUDA_SUCCESS) return grown;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Pool::release(std::uint64_t base, std::optional<Wait> last_use) {
  driver_.heap.retire(base);
  put_back(base, std::move(last_use));
}

void Pool::free(std::uint64_t base, const std::shared_ptr<Stream>& stream) {
  driver_.heap.retire(base);
  Operation operation;
  const Piece& piece = chunk_of(base).pieces.at(base);
  operation.work = PoolChange{shared_from_this(), base, piece.size, false, piece.use};
  const std::uint64_t ticket = driver_.scheduler.enqueue(stream, std::move(operation));
  put_back(base, Wait{stream, ticket});
}

void Pool::free_now(std::uint64_t base) {
  driver_.heap.retire(base);
  end(base, *chunk_of(base).pieces.at(base).use);
  put_back(base, std::nullopt);
}

void Pool::begin(std::uint64_t base, std::uint64_t size, const std::shared_ptr<PieceUse>& use) {
  if (!use->ended) touchable_[base] = {size, use};
}

void Pool::end(std::uint64_t base, PieceUse& use) {
  use.ended = true;
  const auto it = touchable_.find(base);
  // It has not begun, or its context has ended meanwhile.
  if (it == touchable_.end() || it->second.use.get() != &use) return;
  driver_.space.poison(base, it->second.size);
  touchable_.erase(it);
}

bool Pool::holds(std::uint64_t address) const {
  const auto it = chunks_.upper_bound(address);
  return it != chunks_.begin() && address < std::prev(it)->first + std::prev(it)->second.size;
}

bool Pool::usable(std::uint64_t address, std::uint64_t bytes) const {
  const auto it = touchable_.upper_bound(address);
  if (it == touchable_.begin()) return false;
  const auto& [base, piece] = *std::prev(it);
  return address + bytes <= base + piece.size;
}

Pool::Chunk& Pool::chunk_of(std::uint64_t address) {
  return std::prev(chunks_.upper_bound(address))->second;
}

void Pool::put_back(std::uint64_t base, std::optional<Wait> freed) {
  Pieces& pieces = chunk_of(base).pieces;
  auto it = pieces.find(base);
  it->second.live = false;
  it->second.freed = std::move(freed);
  --live_;
  count_used(-static_cast<std::int64_t>(it->second.size));
  // Neighbours become one where one free comes after the other, in one stream or because both are over.
  const auto join = [&](Pieces::iterator low, Pieces::iterator high) {
    Piece& a = low->second;
    const Piece& b = high->second;
    if (a.live || b.live) return false;
    const bool same = a.freed && b.freed && a.freed->stream == b.freed->stream;
    if (!same && (a.freed || b.freed)) return false;
    if (same && b.freed->ticket > a.freed->ticket) a.freed->ticket = b.freed->ticket;
    a.size += b.size;
    pieces.erase(high);
    return true;
  };
  if (const auto next = std::next(it); next != pieces.end()) join(it, next);
  if (it != pieces.begin()) join(std::prev(it), it);
}

void Pool::count_used(std::int64_t change) {
  used_ += static_cast<std::uint64_t>(change);
  used_high_ = std::max(used_high_, used_);
}

bool Pool::idle(const Chunk& chunk, Free free) const {
  return std::all_of(chunk.pieces.begin(), chunk.pieces.end(), [&](const auto& entry) {
    const Piece& piece = entry.second;
    if (piece.live || !piece.freed) return !piece.live;
    return free == Free::kHasRun ? piece.freed->stream->completed >= piece.freed->ticket
                                 : driver_.host_knows(*piece.freed);
  });
}

void Pool::trim(std::uint64_t keep, Free free) {
  for (auto it = chunks_.begin(); it != chunks_.end() && reserved_ > keep;) {
    if (!idle(it->second, free) || reserved_ - it->second.size < keep) {
      ++it;
      continue;
    }
    reserved_ -= it->second.size;
    // The device has waited for what used it, without a call of the program's that says so.
    if (free == Free::kHasRun) driver_.ledger.forget(it->first, it->second.size);
    driver_.heap.drop_segment(it->first, it->second.size);
    it = chunks_.erase(it);
  }
}

void Pool::synchronized() {
  for (auto& [start, chunk] : chunks_) {
    for (auto& [base, piece] : chunk.pieces) {
      if (piece.freed && driver_.host_knows(*piece.freed)) piece.freed.reset();
    }
  }
  if (reserved_ > threshold_) trim(threshold_);
}

CUresult Pool::get(CUmemPool_attribute attribute, void* value) const {
  auto* number = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *static_cast<int*>(value) = follow_events_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *static_cast<int*>(value) = opportunistic_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = internal_dependencies_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *number = threshold_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *number = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *number = reserved_high_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *number = used_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *number = used_high_;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::set(CUmemPool_attribute attribute, const void* value) {
  const auto flag = [&](bool& may) {
    may = *static_cast<const int*>(value) != 0;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return flag(follow_events_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return flag(opportunistic_);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return flag(internal_dependencies_);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = *static_cast<const cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? used_high_ : reserved_high_) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pool::set_access(int ordinal, CUmemAccess_flags access) {
  // The pool's own device cannot be shut out.
  if (ordinal == gpu_.ordinal && access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_DEVICE;
  access_[static_cast<std::size_t>(ordinal)] = access;
  for (const auto& [base, chunk] : chunks_) {
    const CUresult result = driver_.space.set_access(base, chunk.size, ordinal, access, true);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUmemAccess_flags Pool::access(int ordinal) const {
  return access_[static_cast<std::size_t>(ordinal)];
}

}  // namespace simgpu
