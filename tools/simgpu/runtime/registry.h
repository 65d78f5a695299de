#pragma once

#include "simgpu/abi.h"
#include "tools/simgpu/runtime/driver_api.h"
#include "tools/simgpu/runtime/driver_table.h"

namespace simgpu::runtime {

/// What nvcc's start-up code and kernel bodies register: fat binaries, the kernels and variables in them,
/// named by the address of their host stub or host variable, and the CPU bodies for those stubs. Libraries
/// are loaded into the driver when the first of their kernels or variables is asked for. Thread-safe; may be
/// called before main.

/// A fat binary; the returned handle names it until forget_fat_binary.
void** add_fat_binary(const void* wrapper);
void add_function(void** handle, const void* host_stub, const char* device_name);
void add_variable(void** handle, const void* host_variable, const char* device_name);
void add_managed_variable(void** handle, void** host_pointer, const char* device_name);
void add_body(const void* host_stub, const SimgpuKernelBody* body);
/// Unloads the library, unless the process is ending.
void forget_fat_binary(void** handle);

/// Kernel handles that the program got from its own libraries may stand where a host stub may.
void add_kernel(CUkernel kernel);

/// The driver's kernel for a host stub or a kernel handle. CUDA_ERROR_INVALID_HANDLE for what nobody
/// registered.
CUresult find_kernel(const DriverTable& d, const void* stub_or_kernel, CUkernel* out);

/// Loads the fat binary's library and makes the pointers of its managed variables point to them; they do too
/// once one of its kernels or variables has been found. Needs a current context.
CUresult make_managed_variables(const DriverTable& d, void** handle);
/// True if they do. Takes no lock, so that a CPU body may ask.
bool has_managed_variables_ready(void** handle);

/// Address and size of a variable in the current context. A managed variable goes by its address.
/// CUDA_ERROR_INVALID_HANDLE for one that nobody registered.
CUresult find_variable(const DriverTable& d, const void* host_variable, CUdeviceptr* out, std::size_t* bytes);

/// The host stub of a kernel handle; a handle without one is given back.
const void* host_stub_of(const void* kernel);

}  // namespace simgpu::runtime
