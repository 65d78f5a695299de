#pragma once

#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {

/// Runs `work(driver, kernel)` for a host stub or kernel handle, without remembering the error. What is
/// neither gives cudaErrorInvalidDeviceFunction.
template <class Work>
cudaError_t try_with_kernel(bool per_thread, const void* function, Work&& work) {
  bool unknown = false;
  const cudaError_t error = try_call(per_thread, [&](const DriverTable& d) {
    CUkernel kernel = nullptr;
    const CUresult found = find_kernel(d, function, &kernel);
    unknown = found == CUDA_ERROR_INVALID_HANDLE;
    return found == CUDA_SUCCESS ? work(d, kernel) : found;
  });
  return unknown ? cudaErrorInvalidDeviceFunction : error;
}

/// The same, and remembers an error.
template <class Work>
cudaError_t with_kernel(const void* function, Work&& work) {
  return finish(try_with_kernel(false, function, work));
}

/// Driver calls take a kernel where they want a function.
inline CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

}  // namespace simgpu::runtime
