#include <vector_types.h>

#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"
#include "tools/simgpu/runtime/unsupported.h"
#include "tools/simgpu/thread_stack.h"

/// What nvcc generates calls to: start-up code, and `kernel<<<…>>>`'s configuration.

namespace simgpu::runtime {
namespace {

/// What `kernel<<<…>>>` stores between evaluating its configuration and its arguments.
struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};

/// Nested, because an argument's expression may launch too.
using Configurations = ThreadStack<Configuration, 16>;
Configurations& configurations() {
  thread_local Configurations stack;
  return stack;
}

}  // namespace

extern "C" SIMGPU_EXPORT void** CUDARTAPI __cudaRegisterFatBinary(void* wrapper) {
  return add_fat_binary(wrapper);
}
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void** handle) {
  forget_fat_binary(handle);
}
/// Comes before a managed variable's first use in host code; 0 lets the next use ask again.
extern "C" SIMGPU_EXPORT char CUDARTAPI __cudaInitModule(void** handle) {
  if (has_managed_variables_ready(handle)) return 1;
  const cudaError_t error =
      call(false, [&](const DriverTable& d) { return make_managed_variables(d, handle); });
  return error == cudaSuccess ? 1 : 0;
}

extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterFunction(void** handle, const char* stub, char*,
                                                               const char* device_name, int, uint3*, uint3*,
                                                               dim3*, dim3*, int*) {
  add_function(handle, stub, device_name);
}

/// A variable's address and size are the driver's to say; CPU bodies of kernels cannot reach it.
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterVar(void** handle, char* host_variable, char*,
                                                          const char* device_name, int, size_t, int, int) {
  add_variable(handle, host_variable, device_name);
}

/// In host code a managed variable is what this pointer points to.
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterManagedVar(void** handle, void** host_pointer, char*,
                                                                 const char* device_name, int, size_t, int,
                                                                 int) {
  add_managed_variable(handle, host_pointer, device_name);
}

// Start-up code has no result to refuse by: the report has their names.
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterHostVar(void**, const char*, char*, size_t) {
  note_unsupported("__cudaRegisterHostVar");
}
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterUnifiedTable(void**, void*) {
  note_unsupported("__cudaRegisterUnifiedTable");
}

extern "C" SIMGPU_EXPORT int simgpuRegisterKernel(const void* host_stub, const SimgpuKernelBody* body) {
  add_body(host_stub, body);
  return 0;
}

extern "C" SIMGPU_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                        CUstream_st* stream) {
  return configurations().push({grid, block, shared, stream}) ? 0 : 1;
}

extern "C" SIMGPU_EXPORT cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                                          size_t* shared, void* stream) {
  Configurations& stack = configurations();
  if (stack.empty()) return finish(cudaErrorMissingConfiguration);
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared = stack.back().shared;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop();
  return cudaSuccess;
}

}  // namespace simgpu::runtime
