#pragma once

#include <cuda.h>

#include "simgpu/abi.h"

namespace simgpu::runtime {

/// Pointers to the driver's functions, as cuGetProcAddress_v2 gave them.
struct DriverTable {
#define SIMGPU_DRIVER(name, since) decltype(&::name) name = nullptr;
#include "tools/simgpu/runtime/driver_table.def"
#undef SIMGPU_DRIVER
  /// simgpu's own entry (simgpu/abi.h); null in front of a driver that has none.
  SimgpuLibrarySetBodyFn set_body = nullptr;
};

/// Opens libcuda.so.1 and asks its cuGetProcAddress_v2 for everything, once with and once without per-thread
/// default streams. False: no driver, or one without a function that is needed.
bool load_driver(DriverTable* legacy, DriverTable* per_thread, decltype(&::cuGetProcAddress_v2)* lookup);

}  // namespace simgpu::runtime
