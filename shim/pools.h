#pragma once

#include <cuda.h>

#include <cstdint>

#include "allocator/support/units.h"

namespace tidepool::shim {

/// A memory pool of the program whose allocations are managed, as the runtime tags them
/// (runtime::Allocation::tag).
using PoolTag = std::uint8_t;
inline constexpr PoolTag kNoPool = 0;

/// The device that the pool's memory is on, if its allocations can be managed; -1 for all other pools (see
/// managed_pool). Hook-safe for pools that are known.
CUdevice device_of_pool(CUmemoryPool pool) noexcept;
/// The tag of a pool; kNoPool where its allocations are the driver's: pools for other processes, for host
/// memory, for another device than `device`, and pools that we have not seen being made (imported ones). The
/// device's default pool is managed. Hook-safe for pools that are known.
PoolTag managed_pool(CUmemoryPool pool, CUdevice device) noexcept;
/// The tag of the device's current pool, from which cuMemAllocAsync allocates.
PoolTag current_pool(CUdevice device) noexcept;
/// The device's current pool may have changed.
void forget_current_pool(CUdevice device) noexcept;

/// The program has made a pool.
void note_pool(CUmemoryPool pool, const CUmemPoolProps& properties) noexcept;
/// Before a pool is destroyed, since its handle may come back for another before that has returned.
/// Allocations from it stay valid. The tag it had; of a destruction that fails, to be given to
/// put_back_pool().
PoolTag forget_pool(CUmemoryPool pool) noexcept;
void put_back_pool(PoolTag tag, CUmemoryPool pool) noexcept;

// Allocations come and go. Lock-free.

/// Before an allocation: false if the pool would hold more than the program lets it
/// (CUmemPoolProps::maxSize, in whole granules). To be undone by take_from_pool() where there is no memory.
bool take_place_in_pool(PoolTag tag, Bytes size) noexcept;
/// The allocation was made.
void note_allocated_in_pool(PoolTag tag) noexcept;
void take_from_pool(PoolTag tag, Bytes size) noexcept;
/// The pool of a tag; null if it is gone.
CUmemoryPool pool_of(PoolTag tag) noexcept;

/// What managed allocations add to the numbers that the driver has for a pool. `reserved` is what a pool
/// would hold that gives nothing back before it is trimmed.
struct PoolBytes {
  Bytes used;
  Bytes used_high;
  Bytes reserved;
  Bytes reserved_high;
};
PoolBytes pool_bytes(CUmemoryPool pool) noexcept;
/// The program sets a high-water mark to zero: it starts at the current value.
void reset_used_high(CUmemoryPool pool) noexcept;
void reset_reserved_high(CUmemoryPool pool) noexcept;
/// The program's CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
void note_release_threshold(CUmemoryPool pool, Bytes threshold) noexcept;
/// The program has waited for a stream, an event or a context: pools hold no more than their threshold that
/// is not used. Hook-safe, lock-free.
void release_unused() noexcept;
/// The program wants the pool to hold at most `least` bytes that are not used.
void trim_pool(CUmemoryPool pool, Bytes least) noexcept;

}  // namespace tidepool::shim
