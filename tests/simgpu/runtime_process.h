#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "tests/simgpu/device_process.h"

/// The runtime on fresh devices: bodies for on_device that call the CUDA runtime, linked directly.
namespace simgpu_test {

/// Nothing of the runtime is initialised before the body.
inline DeviceSetup runtime_setup(std::uint32_t devices = 1) {
  DeviceSetup setup;
  setup.devices = devices;
  setup.with_context = false;
  return setup;
}

void expect_error(cudaError_t got, cudaError_t want, const char* call, const char* file, int line);

/// Registers a kernel as nvcc's start-up code does, and its body; `stub` is its host stub from then on.
void register_kernel(const void* stub, const char* name, const SimgpuKernelBody* body);

/// How often the report of this process has a name in its list of what is not supported.
std::uint64_t refusals(const std::string& name);

}  // namespace simgpu_test

#define RT_RESULT(call, want) ::simgpu_test::expect_error((call), (want), #call, __FILE__, __LINE__)
#define RT(call) RT_RESULT(call, cudaSuccess)
