#pragma once

#include <cuda_runtime_api.h>

#include "tools/simgpu/runtime/driver_table.h"

namespace simgpu::runtime {

/// Fills every field that the driver has an attribute for; attributes that it does not know stay 0.
CUresult fill_properties(const DriverTable& d, cudaDeviceProp* p, int device);

}  // namespace simgpu::runtime
