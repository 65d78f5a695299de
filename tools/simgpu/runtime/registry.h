#pragma once

#include <cuda.h>

#include "simgpu/abi.h"
#include "tools/simgpu/runtime/driver_table.h"

namespace simgpu::runtime {

/// What nvcc's start-up code and kernel bodies register: fat binaries, the kernels in them, named by the
/// address of their host stub, and the CPU bodies for those stubs. Libraries are loaded into the driver when
/// the first of their kernels is asked for. Thread-safe; may be called before main.

/// A fat binary; the returned handle names it until forget_fat_binary.
void** add_fat_binary(const void* wrapper);
void add_function(void** handle, const void* host_stub, const char* device_name);
void add_body(const void* host_stub, const SimgpuKernelBody* body);
/// Unloads the library, unless the process is ending.
void forget_fat_binary(void** handle);

/// The driver's kernel for a host stub. CUDA_ERROR_INVALID_HANDLE for a stub that nobody registered.
CUresult find_kernel(const DriverTable& d, const void* host_stub, CUkernel* out);

}  // namespace simgpu::runtime
