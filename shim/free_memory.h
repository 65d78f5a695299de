#pragma once

#include <cuda.h>

#include "allocator/runtime.h"

namespace tidepool::shim {

/// Frees managed memory at once, whoever allocated it how: waits for the device as cuMemFree does, and for
/// other contexts that have used managed memory.
CUresult free_now(runtime::Runtime& runtime, CUdeviceptr at) noexcept;

/// Frees it at this point of a stream that can be followed; nothing waits.
CUresult free_in(runtime::Runtime& runtime, CUdeviceptr at, runtime::StreamHandle stream) noexcept;

}  // namespace tidepool::shim
