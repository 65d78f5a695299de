#include <climits>

#include "tools/simgpu/runtime/function.h"
#include "tools/simgpu/runtime/launch_config.h"

/// "Execution Control" of the CUDA runtime API: launches.

namespace simgpu::runtime {
namespace {

/// Shapes that no device has room for ("Technical Specifications per Compute Capability" of the programming
/// guide).
bool is_launchable(dim3 grid, dim3 block) {
  constexpr unsigned kMaxGridYz = 65535;
  constexpr unsigned kMaxThreads = 1024;
  constexpr unsigned kMaxBlockZ = 64;
  const auto within = [](unsigned n, unsigned max) { return n != 0 && n <= max; };
  return within(grid.x, INT_MAX) && within(grid.y, kMaxGridYz) && within(grid.z, kMaxGridYz) &&
         within(block.x, kMaxThreads) && within(block.y, kMaxThreads) && within(block.z, kMaxBlockZ) &&
         std::size_t{block.x} * block.y * block.z <= kMaxThreads;
}

/// The runtime has its own word for a shape that cannot be launched.
cudaError_t finish_launch(cudaError_t error, dim3 grid, dim3 block) {
  if (error == cudaSuccess) return error;
  const bool shape = error == cudaErrorInvalidValue && !is_launchable(grid, block);
  return finish(shape ? cudaErrorInvalidConfiguration : error);
}

CUresult launch(const DriverTable& d, CUkernel kernel, dim3 grid, dim3 block, void** args, std::size_t shared,
                cudaStream_t stream) {
  // More than 4 GiB of shared memory stays too much.
  const auto bytes = static_cast<unsigned>(shared > UINT_MAX ? UINT_MAX : shared);
  return d.cuLaunchKernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes,
                          stream, args, nullptr);
}

}  // namespace

SIMGPU_RUNTIME(__cudaGetKernel, (cudaKernel_t * out, const void* stub)) {
  return with_kernel(stub, [&](const DriverTable&, CUkernel kernel) {
    *out = kernel;
    return CUDA_SUCCESS;
  });
}

SIMGPU_RUNTIME_TWINS(__cudaLaunchKernel, _ptsz,
                     (cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     kernel, grid, block, args, shared, stream) {
  // nvcc's stub launches also where __cudaGetKernel has just failed: what was wrong then is what the program
  // hears.
  if (kernel == nullptr && last_error(false) != cudaSuccess) return last_error(false);
  const cudaError_t error = try_call(
      per_thread, [&](const DriverTable& d) { return launch(d, kernel, grid, block, args, shared, stream); });
  return finish_launch(error, grid, block);
}

SIMGPU_RUNTIME_TWINS(cudaLaunchKernel, _ptsz,
                     (const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     function, grid, block, args, shared, stream) {
  const cudaError_t error = try_with_kernel(per_thread, function, [&](const DriverTable& d, CUkernel kernel) {
    return launch(d, kernel, grid, block, args, shared, stream);
  });
  return finish_launch(error, grid, block);
}

SIMGPU_RUNTIME_TWINS(cudaLaunchCooperativeKernel, _ptsz,
                     (const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     function, grid, block, args, shared, stream) {
  const cudaError_t error = try_with_kernel(per_thread, function, [&](const DriverTable& d, CUkernel kernel) {
    const auto bytes = static_cast<unsigned>(shared > UINT_MAX ? UINT_MAX : shared);
    return d.cuLaunchCooperativeKernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                       bytes, stream, args);
  });
  return finish_launch(error, grid, block);
}

SIMGPU_RUNTIME_TWINS(cudaLaunchKernelExC, _ptsz,
                     (const cudaLaunchConfig_t* config, const void* function, void** args), config, function,
                     args) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  const cudaError_t error = try_with_kernel(per_thread, function, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig c = as_driver(*config);
    return d.cuLaunchKernelEx(&c, as_function(kernel), args, nullptr);
  });
  return finish_launch(error, config->gridDim, config->blockDim);
}

}  // namespace simgpu::runtime
