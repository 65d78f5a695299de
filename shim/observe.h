#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>

#include "allocator/observed_memory.h"
#include "planner/plan/trace_record.h"
#include "shim/touch_set.h"

/// Memory that stays the driver's own and is watched (TIDEPOOL_MODE=observe; drivers and devices that cannot
/// be managed): nothing moves and no budget holds, but the numbers and the trace are as of a managed program.
/// Memory of CUDA libraries is not watched, as it is not managed.
namespace tidepool::shim {

extern std::atomic<bool> g_observes;
extern std::atomic<bool> g_manages_nothing;

/// From here on memory that is not managed is watched. `manages_nothing`: no device will be managed at all.
void observe_memory(bool manages_nothing) noexcept;

/// Is memory that is not managed watched? One load.
inline bool observes() noexcept {
  return g_observes.load(std::memory_order_relaxed);
}
/// Has any memory been watched?
bool has_observed() noexcept;
/// Will no device be managed, whatever it can? One load.
inline bool manages_nothing() noexcept {
  return g_manages_nothing.load(std::memory_order_acquire);
}

/// The blocks that one call touches, of memory that is watched.
using ObservedSet = BasicTouchSet<runtime::ObservedMemory>;

/// An allocation call of the program has returned `at`; `rest`: its arguments behind the first. False: it is
/// not watched: it belongs to a context of its own, a graph, or a pool that could not be managed either.
bool observe(bool per_thread, CUdeviceptr at, std::size_t size) noexcept;
bool observe(bool per_thread, CUdeviceptr at, std::size_t* pitch, std::size_t width, std::size_t height,
             unsigned element) noexcept;
bool observe(bool per_thread, CUdeviceptr at, std::size_t size, CUstream stream) noexcept;
bool observe(bool per_thread, CUdeviceptr at, std::size_t size, CUmemoryPool pool, CUstream stream) noexcept;
/// A stream as records of watched work name it: the default streams of one device are not those of another.
runtime::StreamHandle observed_stream(runtime::StreamHandle stream) noexcept;

/// The program has mapped memory of its own, of the device.
void observe_mapping(CUdeviceptr at, std::size_t size) noexcept;

/// Before a free of the program; `rest` as above. What comes back is empty if the address is not watched. If
/// the free fails, or may have been of a part only, observe_again() puts it back.
runtime::ObservedMemory::Entry observe_free(bool per_thread, CUdeviceptr at) noexcept;
runtime::ObservedMemory::Entry observe_free(bool per_thread, CUdeviceptr at, CUstream stream) noexcept;
runtime::ObservedMemory::Entry observe_unmapping(CUdeviceptr at) noexcept;
void observe_again(const runtime::ObservedMemory::Entry& entry) noexcept;

/// The device's primary context is reset, and its memory gone.
void forget_observed(CUdevice device) noexcept;

}  // namespace tidepool::shim
