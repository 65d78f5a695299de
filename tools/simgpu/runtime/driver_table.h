#pragma once

#include "simgpu/abi.h"
#include "tools/simgpu/runtime/driver_api.h"

namespace simgpu::runtime {

/// Pointers to the driver's functions, as cuGetProcAddress_v2 gave them. What a driver lacks answers
/// CUDA_ERROR_NOT_SUPPORTED, so none is null.
struct DriverTable {
#define SIMGPU_DRIVER(name, since) decltype(&::name) name = nullptr;
#include "tools/simgpu/runtime/driver_table.def"
#undef SIMGPU_DRIVER
  /// simgpu's own entries (simgpu/abi.h); null in front of a driver that has none.
  SimgpuLibrarySetBodyFn set_body = nullptr;
  SimgpuNoteFn note = nullptr;
  SimgpuProgramFn program = nullptr;
};

/// Opens libcuda.so.1 and asks its cuGetProcAddress_v2 for everything, once with and once without per-thread
/// default streams. False: no driver, or none that can be initialised.
bool load_driver(DriverTable* legacy, DriverTable* per_thread, decltype(&::cuGetProcAddress_v2)* lookup);

}  // namespace simgpu::runtime
