#pragma once

#include <cuda_runtime_api.h>

#include "tools/simgpu/runtime/driver_api.h"
#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {

/// The driver's form of a launch configuration; attributes stay where they are.
inline CUlaunchConfig as_driver(const cudaLaunchConfig_t& config) {
  CUlaunchConfig c{};
  c.gridDimX = config.gridDim.x;
  c.gridDimY = config.gridDim.y;
  c.gridDimZ = config.gridDim.z;
  c.blockDimX = config.blockDim.x;
  c.blockDimY = config.blockDim.y;
  c.blockDimZ = config.blockDim.z;
  c.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  c.hStream = config.stream;
  c.attrs = same<CUlaunchAttribute>(config.attrs);
  c.numAttrs = config.numAttrs;
  return c;
}

}  // namespace simgpu::runtime
