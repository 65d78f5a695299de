#pragma once

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/kernel_handles.h"

namespace simgpu {

inline constexpr unsigned kMaxBlockThreads = 1024;

/// Blocks of this shape that are resident on a multiprocessor at once.
int active_blocks(const Gpu& gpu, int block_threads, std::size_t dynamic_shared);

/// Checks a launch, loads its kernel into the context, and copies its parameters, given one by one or packed
/// in `extra`. The stream and the attributes of `c` are not looked at.
CUresult make_launch(Driver& d, Context& context, CUfunction handle, const CUlaunchConfig& c, void** params,
                     void** extra, bool cooperative, Launch* out);

}  // namespace simgpu
