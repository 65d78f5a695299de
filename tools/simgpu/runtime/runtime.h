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

/// An exported runtime function that is one expression over `d`, the driver table; it needs a context.
#define SIMGPU_FORWARD(name, params, ...)                                  \
  SIMGPU_RUNTIME(name, params) {                                           \
    return call(false, [&](const DriverTable& d) { return __VA_ARGS__; }); \
  }

/// The same for a function with a per-thread twin; `args` are the names of its parameters, in parentheses.
#define SIMGPU_FORWARD_TWINS(name, suffix, params, args, ...)                   \
  SIMGPU_RUNTIME_TWINS(name, suffix, params, SIMGPU_UNPAREN args) {             \
    return call(per_thread, [&](const DriverTable& d) { return __VA_ARGS__; }); \
  }

namespace simgpu::runtime {

/// The driver of this process, or null if there is none or cuInit failed; then *why says which error.
const DriverTable* driver(bool per_thread, cudaError_t* why) noexcept;
/// The driver of this process even if cuInit failed; null where no driver is installed.
const DriverTable* installed_driver() noexcept;
/// The driver's cuGetProcAddress_v2. Valid after driver() has returned a table.
decltype(&::cuGetProcAddress_v2) driver_lookup() noexcept;

/// The device that this thread uses: that of its current context, else the one it set, else 0.
CUresult current_device(const DriverTable& d, int* device) noexcept;
/// The device's primary context, retained by this library on first use.
CUresult primary_context(const DriverTable& d, int device, CUcontext* out) noexcept;
/// Makes the device's primary context current in this thread.
CUresult select_device(const DriverTable& d, int device) noexcept;
/// Gives this thread a current context if it has none: the primary one of its device.
CUresult bind_context(const DriverTable& d) noexcept;
/// Ends the primary context of the thread's device, if that is what is current or nothing is.
CUresult reset_device(const DriverTable& d) noexcept;
/// True once this thread has had a context; then calls go straight to the driver.
bool thread_is_bound() noexcept;
/// After a call that found no context or an ended one: true if the thread has a new one, so that the call can
/// be made again.
bool bind_again(const DriverTable& d, CUresult result) noexcept;
/// True while the process ends; then libraries are not unloaded any more.
bool exiting() noexcept;

/// Remembers an error as this thread's last one and returns it.
cudaError_t finish(cudaError_t error) noexcept;
/// The thread's last error; `clear` sets it back to success, unless it ended the context: those stay.
cudaError_t last_error(bool clear) noexcept;

/// Driver and runtime number their errors alike.
inline cudaError_t as_runtime(CUresult result) {
  return static_cast<cudaError_t>(result);
}
inline CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
/// The driver's pointer type for a pointer of the runtime whose target has the same layout under another
/// name.
template <class Driver, class Runtime>
Driver* same(Runtime* pointer) {
  static_assert(sizeof(Driver) == sizeof(Runtime) && alignof(Driver) == alignof(Runtime));
  return reinterpret_cast<Driver*>(pointer);
}
template <class Driver, class Runtime>
const Driver* same(const Runtime* pointer) {
  static_assert(sizeof(Driver) == sizeof(Runtime) && alignof(Driver) == alignof(Runtime));
  return reinterpret_cast<const Driver*>(pointer);
}

/// Runs `work(driver table)` and remembers an error. For calls that need no context.
template <class Work>
cudaError_t call_driver(Work&& work) noexcept {
  cudaError_t why = cudaSuccess;
  const DriverTable* d = driver(false, &why);
  return finish(d == nullptr ? why : as_runtime(work(*d)));
}

/// Runs `work(driver table)` in a thread that has a current context, makes one current where there is none,
/// and gives the result without remembering it.
template <class Work>
cudaError_t try_call(bool per_thread, Work&& work) noexcept {
  cudaError_t why = cudaSuccess;
  const DriverTable* d = driver(per_thread, &why);
  if (d == nullptr) return why;
  CUresult result = thread_is_bound() ? CUDA_SUCCESS : bind_context(*d);
  if (result == CUDA_SUCCESS) result = work(*d);
  if (result != CUDA_SUCCESS && bind_again(*d, result)) result = work(*d);
  return as_runtime(result);
}

/// The same, and remembers an error.
template <class Work>
cudaError_t call(bool per_thread, Work&& work) noexcept {
  const cudaError_t error = try_call(per_thread, work);
  return error == cudaSuccess ? error : finish(error);
}

}  // namespace simgpu::runtime
