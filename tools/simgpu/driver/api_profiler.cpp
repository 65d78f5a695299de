#include "tools/simgpu/driver/api.h"

/// "Profiler Control" of the CUDA driver API. Nothing profiles here: both are accepted, as by a driver
/// without an attached tool.

namespace simgpu {

SIMGPU_API_CONTEXT(cuProfilerStart, ()) {
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuProfilerStop, ()) {
  return CUDA_SUCCESS;
}

}  // namespace simgpu
