#pragma once

#include <cuda_runtime_api.h>

#include "tools/simgpu/runtime/driver_table.h"

#define SIMGPU_EXPORT __attribute__((visibility("default")))
#define SIMGPU_UNPAREN(...) __VA_ARGS__
#define SIMGPU_REST(...) __VA_OPT__(, ) __VA_ARGS__

/// Defines an exported runtime function and its per-thread twin name_ptsz / name_ptds. The body that follows
/// sees `per_thread`: which of the two was called.
#define SIMGPU_RUNTIME_TWINS(name, suffix, params, ...)                \
  static cudaError_t name##_body(bool per_thread SIMGPU_REST params);  \
  extern "C" SIMGPU_EXPORT cudaError_t CUDARTAPI name params {         \
    return name##_body(false, __VA_ARGS__);                            \
  }                                                                    \
  extern "C" SIMGPU_EXPORT cudaError_t CUDARTAPI name##suffix params { \
    return name##_body(true, __VA_ARGS__);                             \
  }                                                                    \
  static cudaError_t name##_body([[maybe_unused]] bool per_thread SIMGPU_REST params)

/// Defines an exported runtime function.
#define SIMGPU_RUNTIME(name, params) extern "C" SIMGPU_EXPORT cudaError_t CUDARTAPI name params

namespace simgpu::runtime {

/// The driver of this process, or null if there is none or cuInit failed; then *why says which error.
const DriverTable* driver(bool per_thread, cudaError_t* why) noexcept;
/// The driver's cuGetProcAddress_v2. Valid after driver() has returned a table.
decltype(&::cuGetProcAddress_v2) driver_lookup() noexcept;

/// Makes the device's primary context current in this thread, retaining it on first use.
CUresult bind_primary(const DriverTable& d) noexcept;
/// True once this thread has bound a context; then calls go straight to the driver.
bool thread_is_bound() noexcept;
/// The thread binds again at its next call: after cudaDeviceReset.
void forget_binding() noexcept;
/// True while the process ends; then libraries are not unloaded any more.
bool exiting() noexcept;

/// Remembers an error as this thread's last one and returns it.
cudaError_t finish(cudaError_t error) noexcept;
/// The thread's last error; `clear` sets it back to success.
cudaError_t last_error(bool clear) noexcept;

/// Driver and runtime number their errors alike.
inline cudaError_t as_runtime(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Runs `work(driver table)` in a thread that has a current context, makes one current where there is none,
/// and remembers an error.
template <class Work>
cudaError_t call(bool per_thread, Work&& work) noexcept {
  cudaError_t why = cudaSuccess;
  const DriverTable* d = driver(per_thread, &why);
  if (d == nullptr) return finish(why);
  CUresult result = thread_is_bound() ? CUDA_SUCCESS : bind_primary(*d);
  if (result == CUDA_SUCCESS) {
    result = work(*d);
    // The program may have popped the context through the driver API.
    if (result == CUDA_ERROR_INVALID_CONTEXT && bind_primary(*d) == CUDA_SUCCESS) result = work(*d);
  }
  return finish(as_runtime(result));
}

}  // namespace simgpu::runtime
