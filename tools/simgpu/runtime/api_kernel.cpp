#include <vector_types.h>

#include <array>
#include <cstring>

#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"
#include "tools/simgpu/thread_stack.h"

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

/// The runtime has its own words for a bad grid and for a function that is no kernel.
cudaError_t launch_error(CUresult result, dim3 grid, dim3 block) {
  if (result != CUDA_ERROR_INVALID_VALUE) return as_runtime(result);
  constexpr unsigned kMaxThreads = 1024;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  const bool empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0;
  return empty || threads > kMaxThreads ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
}

CUresult launch_handle(const DriverTable& d, CUkernel kernel, dim3 grid, dim3 block, void** args,
                       std::size_t shared, cudaStream_t stream, bool cooperative) {
  const auto function = reinterpret_cast<CUfunction>(kernel);
  const auto bytes = static_cast<unsigned>(shared);
  return cooperative ? d.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                                   block.z, bytes, stream, args)
                     : d.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes,
                                        stream, args, nullptr);
}

cudaError_t launch_stub(bool per_thread, const void* stub, dim3 grid, dim3 block, void** args,
                        std::size_t shared, cudaStream_t stream, bool cooperative) {
  CUresult launched = CUDA_SUCCESS;
  const cudaError_t called = call(per_thread, [&](const DriverTable& d) {
    CUkernel kernel = nullptr;
    launched = find_kernel(d, stub, &kernel);
    if (launched == CUDA_ERROR_INVALID_HANDLE) return CUDA_ERROR_INVALID_HANDLE;
    if (launched == CUDA_SUCCESS)
      launched = launch_handle(d, kernel, grid, block, args, shared, stream, cooperative);
    return launched;
  });
  if (launched == CUDA_SUCCESS) return called;
  if (launched == CUDA_ERROR_INVALID_HANDLE) return finish(cudaErrorInvalidDeviceFunction);
  return finish(launch_error(launched, grid, block));
}

/// Runs `work(driver, kernel)` for a host stub.
template <class Work>
cudaError_t with_kernel(const void* stub, Work&& work) {
  bool unknown = false;
  const cudaError_t result = call(false, [&](const DriverTable& d) {
    CUkernel kernel = nullptr;
    const CUresult found = find_kernel(d, stub, &kernel);
    unknown = found == CUDA_ERROR_INVALID_HANDLE;
    return found == CUDA_SUCCESS ? work(d, kernel) : found;
  });
  return unknown ? finish(cudaErrorInvalidDeviceFunction) : result;
}

CUresult fill_attributes(const DriverTable& d, CUkernel kernel, cudaFuncAttributes* out) {
  std::memset(out, 0, sizeof *out);
  CUresult result = CUDA_SUCCESS;
  const auto get = [&](CUfunction_attribute which) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = d.cuKernelGetAttribute(&value, which, kernel, 0);
    return value;
  };
  out->sharedSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  out->constSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  out->localSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  out->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  out->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  out->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  out->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  out->nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  return result;
}

}  // namespace

// What nvcc generates calls to.

extern "C" SIMGPU_EXPORT void** CUDARTAPI __cudaRegisterFatBinary(void* wrapper) {
  return add_fat_binary(wrapper);
}
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void** handle) {
  forget_fat_binary(handle);
}
extern "C" SIMGPU_EXPORT char CUDARTAPI __cudaInitModule(void**) {
  return 1;
}

extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterFunction(void** handle, const char* stub, char*,
                                                               const char* device_name, int, uint3*, uint3*,
                                                               dim3*, dim3*, int*) {
  add_function(handle, stub, device_name);
}

/// Variables of device code have no place that a CPU body could reach: they are accepted and unknown.
extern "C" SIMGPU_EXPORT void CUDARTAPI __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int,
                                                          int) {}

extern "C" SIMGPU_EXPORT int simgpuRegisterKernel(const void* host_stub, const SimgpuKernelBody* body) {
  add_body(host_stub, body);
  return 0;
}

extern "C" SIMGPU_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                        CUstream_st* stream) {
  if (!configurations().push({grid, block, shared, stream})) return 1;
  return 0;
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

SIMGPU_RUNTIME(__cudaGetKernel, (cudaKernel_t * out, const void* stub)) {
  return with_kernel(stub, [&](const DriverTable&, CUkernel kernel) {
    *out = reinterpret_cast<cudaKernel_t>(kernel);
    return CUDA_SUCCESS;
  });
}

SIMGPU_RUNTIME_TWINS(__cudaLaunchKernel, _ptsz,
                     (cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     kernel, grid, block, args, shared, stream) {
  CUresult launched = CUDA_SUCCESS;
  const cudaError_t called = call(per_thread, [&](const DriverTable& d) {
    launched = launch_handle(d, reinterpret_cast<CUkernel>(kernel), grid, block, args, shared, stream, false);
    return launched;
  });
  return launched == CUDA_SUCCESS ? called : finish(launch_error(launched, grid, block));
}

// The public launches.

SIMGPU_RUNTIME_TWINS(cudaLaunchKernel, _ptsz,
                     (const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     stub, grid, block, args, shared, stream) {
  return launch_stub(per_thread, stub, grid, block, args, shared, stream, false);
}

SIMGPU_RUNTIME_TWINS(cudaLaunchCooperativeKernel, _ptsz,
                     (const void* stub, dim3 grid, dim3 block, void** args, size_t shared,
                      cudaStream_t stream),
                     stub, grid, block, args, shared, stream) {
  return launch_stub(per_thread, stub, grid, block, args, shared, stream, true);
}

SIMGPU_RUNTIME_TWINS(cudaLaunchKernelExC, _ptsz,
                     (const cudaLaunchConfig_t* config, const void* stub, void** args), config, stub, args) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  CUresult launched = CUDA_SUCCESS;
  const cudaError_t called = call(per_thread, [&](const DriverTable& d) {
    CUkernel kernel = nullptr;
    launched = find_kernel(d, stub, &kernel);
    if (launched != CUDA_SUCCESS) return launched;
    CUlaunchConfig c{};
    c.gridDimX = config->gridDim.x;
    c.gridDimY = config->gridDim.y;
    c.gridDimZ = config->gridDim.z;
    c.blockDimX = config->blockDim.x;
    c.blockDimY = config->blockDim.y;
    c.blockDimZ = config->blockDim.z;
    c.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
    c.hStream = config->stream;
    // The runtime's launch attributes are the driver's under other names.
    c.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
    c.numAttrs = config->numAttrs;
    launched = d.cuLaunchKernelEx(&c, reinterpret_cast<CUfunction>(kernel), args, nullptr);
    return launched;
  });
  if (launched == CUDA_SUCCESS) return called;
  if (launched == CUDA_ERROR_INVALID_HANDLE) return finish(cudaErrorInvalidDeviceFunction);
  return finish(launch_error(launched, config->gridDim, config->blockDim));
}

SIMGPU_RUNTIME(cudaGetKernel, (cudaKernel_t * out, const void* stub)) {
  return __cudaGetKernel(out, stub);
}

SIMGPU_RUNTIME(cudaGetFuncBySymbol, (cudaFunction_t * out, const void* stub)) {
  return with_kernel(
      stub, [&](const DriverTable& d, CUkernel kernel) { return d.cuKernelGetFunction(out, kernel); });
}

SIMGPU_RUNTIME(cudaFuncGetAttributes, (cudaFuncAttributes * out, const void* stub)) {
  return with_kernel(stub, [&](const DriverTable& d, CUkernel kernel) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : fill_attributes(d, kernel, out);
  });
}

SIMGPU_RUNTIME(cudaFuncSetAttribute, (const void* stub, cudaFuncAttribute which, int value)) {
  return with_kernel(stub, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(which), value, kernel, 0);
  });
}

SIMGPU_RUNTIME(cudaFuncSetCacheConfig, (const void* stub, cudaFuncCache config)) {
  return with_kernel(stub, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuFuncSetCacheConfig(reinterpret_cast<CUfunction>(kernel), static_cast<CUfunc_cache>(config));
  });
}

SIMGPU_RUNTIME(cudaFuncGetName, (const char** name, const void* stub)) {
  return with_kernel(stub,
                     [&](const DriverTable& d, CUkernel kernel) { return d.cuKernelGetName(name, kernel); });
}

SIMGPU_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
               (int* blocks, const void* stub, int threads, size_t shared, unsigned flags)) {
  return with_kernel(stub, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, reinterpret_cast<CUfunction>(kernel), threads, shared, flags);
  });
}

SIMGPU_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
               (int* blocks, const void* stub, int threads, size_t shared)) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, shared, 0);
}

SIMGPU_RUNTIME(cudaOccupancyAvailableDynamicSMemPerBlock,
               (size_t * bytes, const void* stub, int blocks, int threads)) {
  return with_kernel(stub, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyAvailableDynamicSMemPerBlock(bytes, reinterpret_cast<CUfunction>(kernel), blocks,
                                                     threads);
  });
}

}  // namespace simgpu::runtime
