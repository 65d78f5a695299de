#include <type_traits>

#include "tools/simgpu/runtime/function.h"
#include "tools/simgpu/runtime/launch_config.h"

/// "Execution Control" and "Occupancy" of the CUDA runtime API: what functions are and may use.

namespace simgpu::runtime {
namespace {

CUresult fill_attributes(const DriverTable& d, CUkernel kernel, cudaFuncAttributes* out) {
  int device = 0;
  CUresult result = current_device(d, &device);
  cudaFuncAttributes filled{};
  const auto set = [&](auto& field, CUfunction_attribute which) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = d.cuKernelGetAttribute(&value, which, kernel, device);
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  };
  set(filled.sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  set(filled.constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  set(filled.localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  set(filled.maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  set(filled.numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
  set(filled.ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  set(filled.binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  set(filled.cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  set(filled.maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  set(filled.preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  set(filled.clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  set(filled.requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  set(filled.requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  set(filled.requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  set(filled.clusterSchedulingPolicyPreference, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  set(filled.nonPortableClusterSizeAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  if (result == CUDA_SUCCESS) *out = filled;
  return result;
}

}  // namespace

SIMGPU_RUNTIME(cudaGetKernel, (cudaKernel_t * out, const void* function)) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  return with_kernel(function, [&](const DriverTable&, CUkernel kernel) {
    *out = kernel;
    return CUDA_SUCCESS;
  });
}

SIMGPU_RUNTIME(cudaGetFuncBySymbol, (cudaFunction_t * out, const void* function)) {
  return with_kernel(
      function, [&](const DriverTable& d, CUkernel kernel) { return d.cuKernelGetFunction(out, kernel); });
}

SIMGPU_RUNTIME(cudaFuncGetAttributes, (cudaFuncAttributes * out, const void* function)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : fill_attributes(d, kernel, out);
  });
}

SIMGPU_RUNTIME(cudaFuncSetAttribute, (const void* function, cudaFuncAttribute which, int value)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    int device = 0;
    const CUresult result = current_device(d, &device);
    if (result != CUDA_SUCCESS) return result;
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(which), value, kernel, device);
  });
}

SIMGPU_RUNTIME(cudaKernelSetAttributeForDevice,
               (cudaKernel_t kernel, cudaFuncAttribute which, int value, int device)) {
  return call_driver([&](const DriverTable& d) {
    return d.cuKernelSetAttribute(static_cast<CUfunction_attribute>(which), value, kernel, device);
  });
}

SIMGPU_RUNTIME(cudaFuncSetCacheConfig, (const void* function, cudaFuncCache config)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuFuncSetCacheConfig(as_function(kernel), static_cast<CUfunc_cache>(config));
  });
}

SIMGPU_RUNTIME(cudaFuncSetSharedMemConfig, (const void* function, cudaSharedMemConfig config)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuFuncSetSharedMemConfig(as_function(kernel), static_cast<CUsharedconfig>(config));
  });
}

SIMGPU_RUNTIME(cudaFuncGetName, (const char** name, const void* function)) {
  return with_kernel(function,
                     [&](const DriverTable& d, CUkernel kernel) { return d.cuKernelGetName(name, kernel); });
}

SIMGPU_RUNTIME(cudaFuncGetParamInfo, (const void* function, size_t index, size_t* offset, size_t* bytes)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuKernelGetParamInfo(kernel, index, offset, bytes);
  });
}

// Occupancy.

SIMGPU_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
               (int* blocks, const void* function, int threads, size_t shared, unsigned flags)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel), threads,
                                                                  shared, flags);
  });
}

SIMGPU_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
               (int* blocks, const void* function, int threads, size_t shared)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel), threads,
                                                                  shared, 0);
  });
}

SIMGPU_RUNTIME(cudaOccupancyAvailableDynamicSMemPerBlock,
               (size_t * bytes, const void* function, int blocks, int threads)) {
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    return d.cuOccupancyAvailableDynamicSMemPerBlock(bytes, as_function(kernel), blocks, threads);
  });
}

SIMGPU_RUNTIME(cudaOccupancyMaxPotentialClusterSize,
               (int* blocks, const void* function, const cudaLaunchConfig_t* config)) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig c = as_driver(*config);
    return d.cuOccupancyMaxPotentialClusterSize(blocks, as_function(kernel), &c);
  });
}

SIMGPU_RUNTIME(cudaOccupancyMaxActiveClusters,
               (int* clusters, const void* function, const cudaLaunchConfig_t* config)) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  return with_kernel(function, [&](const DriverTable& d, CUkernel kernel) {
    const CUlaunchConfig c = as_driver(*config);
    return d.cuOccupancyMaxActiveClusters(clusters, as_function(kernel), &c);
  });
}

}  // namespace simgpu::runtime
