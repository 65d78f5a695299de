#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "allocator/support/units.h"

/// What CU_POINTER_ATTRIBUTE_BUFFER_ID says of managed memory: a number for each allocation that no other has
/// in the life of the process. Whoever registers memory (UCX, MPI) knows by it that an address is new memory.
/// The driver's own answer is about the pooled memory behind a block, which serves one block after another.
///
/// Thread-safe; a short lock once any id was asked for, one load before. May allocate.
namespace tidepool::shim {

namespace detail {
extern std::atomic<bool> g_any_buffer_ids;  // was one ever given?
std::uint64_t take_known_buffer_id(CUdeviceptr base) noexcept;
}  // namespace detail

/// The id of the allocation that begins there. Numbers that no driver gives: those count from 1.
std::uint64_t buffer_id(CUdeviceptr base) noexcept;

/// Before the allocation is freed: its address may come back on another thread before the free has returned.
/// 0: it has none.
inline std::uint64_t take_buffer_id(CUdeviceptr base) noexcept {
  if (!detail::g_any_buffer_ids.load(std::memory_order_acquire)) [[likely]]
    return 0;
  return detail::take_known_buffer_id(base);
}
/// The free has failed.
void put_back_buffer_id(CUdeviceptr base, std::uint64_t id) noexcept;

/// All memory in the range is gone.
void forget_buffer_ids(CUdeviceptr from, Bytes size) noexcept;

}  // namespace tidepool::shim
