#pragma once

#include "tests/simgpu/device_process.h"

/// Short forms of what many cases do with a device. They run in the child of on_device(); what fails ends it.
namespace simgpu_test {

/// Ordinary memory of the first device, for cuMemCreate.
CUmemAllocationProp device_memory();
CUmemGenericAllocationHandle create(std::size_t bytes);
CUdeviceptr reserve(std::size_t bytes);
/// Of the first device.
CUresult set_access(CUdeviceptr base, std::size_t bytes, CUmemAccess_flags access);

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
/// The current one.
CUcontext context();

/// Memory of `count` ints, all 0.
CUdeviceptr new_ints(std::size_t count);
/// The int at a device address, once all work is done.
int int_at(CUdeviceptr address);

}  // namespace simgpu_test
