#pragma once

#include <cuda.h>

#include <span>

#include "allocator/recorder.h"
#include "allocator/runtime.h"
#include "shim/touch_set.h"

/// What the hooks tell the recorder. Each is called only if `recording()`, out of the way of the hook.
namespace tidepool::shim {

/// One load; false unless TIDEPOOL_TRACE asked for a trace.
inline bool recording() noexcept {
  return runtime::Recorder::is_on();
}

/// Begins to record, if the options ask for it: a device is managed from here on.
void start_recording(const runtime::Runtime& runtime, CUdevice device) noexcept;

/// After an allocation.
[[gnu::noinline, gnu::cold]] void record_allocation(runtime::Runtime& runtime, CUdeviceptr at,
                                                    std::size_t size, plan::MemoryApi api,
                                                    runtime::StreamHandle stream) noexcept;
/// Before a free; nothing if the address is not the start of an allocation.
[[gnu::noinline, gnu::cold]] void record_free(runtime::Runtime& runtime, CUdeviceptr at, plan::MemoryApi api,
                                              runtime::StreamHandle stream) noexcept;

/// After a launch. `shape`: grid and shared memory. Blocks by their numbers in records
/// (runtime::Arena::recorded), which for the first managed device are the blocks' own.
[[gnu::noinline]] void record_launch(plan::LaunchRecord&& shape, CUfunction function,
                                     runtime::StreamHandle stream, Touched set) noexcept;
/// After a launch that may touch anything.
[[gnu::noinline, gnu::cold]] void record_launch_of_any(plan::LaunchRecord&& shape, CUfunction function,
                                                       runtime::StreamHandle stream) noexcept;
/// After the launch of a graph: what is in it is not told, and its blocks stay where they are.
[[gnu::noinline, gnu::cold]] void record_graph(runtime::StreamHandle stream) noexcept;
/// After a copy or memset.
[[gnu::noinline]] void record_copy(plan::CopyKind kind, std::size_t size, runtime::StreamHandle stream,
                                   Touched set) noexcept;

/// A stream as records name it where several devices may be managed: those of the first as their runtime
/// does, others with their device's slot, since each device has a legacy stream.
[[gnu::noinline]] runtime::StreamHandle recorded_stream(CUstream stream, bool per_thread) noexcept;

inline plan::LaunchRecord launch_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                       unsigned bz, unsigned shared) noexcept {
  plan::LaunchRecord shape;
  shape.grid = {{gx, gy, gz}, {bx, by, bz}};
  shape.shared_bytes = shared;
  return shape;
}

}  // namespace tidepool::shim
