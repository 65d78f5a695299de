#pragma once

#include <cuda_runtime_api.h>

#include "tools/simgpu/runtime/driver_api.h"
#include "tools/simgpu/runtime/driver_table.h"

namespace simgpu::runtime {

/// Parameters of graph nodes: the runtime's structures and the driver's. Those that are not here have one
/// layout.

/// CUDA_ERROR_INVALID_VALUE for null, CUDA_ERROR_INVALID_HANDLE for a function
/// that nobody registered.
CUresult kernel_params(const DriverTable& d, const cudaKernelNodeParams* in, CUDA_KERNEL_NODE_PARAMS* out);

/// The function is the host stub again if it was registered under one, else the driver's handle.
void kernel_params_back(const CUDA_KERNEL_NODE_PARAMS& in, cudaKernelNodeParams* out);

/// Any node. CUDA_ERROR_INVALID_VALUE for null.
CUresult node_params(const DriverTable& d, const cudaGraphNodeParams* in, CUgraphNodeParams* out);
/// What the driver wrote into the parameters of a node that it added.
void node_results(const CUgraphNodeParams& from, cudaGraphNodeParams* to);

}  // namespace simgpu::runtime
