#include <cstdio>
#include <cstring>

#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

constexpr int kRuntimeVersion = CUDART_VERSION;

/// Calls that need the driver but no context.
template <class Work>
cudaError_t call_driver(Work&& work) {
  cudaError_t why = cudaSuccess;
  const DriverTable* d = driver(false, &why);
  if (d == nullptr) return finish(why);
  return finish(as_runtime(work(*d)));
}

int attribute(const DriverTable& d, CUdevice_attribute which, int device) {
  int value = 0;
  d.cuDeviceGetAttribute(&value, which, device);
  return value;
}

CUresult fill_properties(const DriverTable& d, cudaDeviceProp* p, int device) {
  std::memset(p, 0, sizeof *p);
  CUresult result = d.cuDeviceGetName(p->name, sizeof p->name, device);
  if (result != CUDA_SUCCESS) return result;
  CUuuid uuid{};
  result = d.cuDeviceGetUuid(&uuid, device);
  if (result != CUDA_SUCCESS) return result;
  std::memcpy(&p->uuid, &uuid, sizeof uuid);
  result = d.cuDeviceTotalMem(&p->totalGlobalMem, device);
  if (result != CUDA_SUCCESS) return result;
  const auto get = [&](CUdevice_attribute which) { return attribute(d, which, device); };
  const auto bytes = [&](CUdevice_attribute which) { return static_cast<std::size_t>(get(which)); };
  p->sharedMemPerBlock = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p->warpSize = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p->memPitch = bytes(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  p->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  p->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  p->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p->totalConstMem = bytes(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p->major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p->minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p->textureAlignment = bytes(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  p->texturePitchAlignment = bytes(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  p->surfaceAlignment = bytes(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  p->multiProcessorCount = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p->canMapHostMemory = get(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  p->concurrentKernels = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  p->pciBusID = get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  p->asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  p->unifiedAddressing = get(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  p->memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p->l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p->maxThreadsPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p->maxBlocksPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  p->streamPrioritiesSupported = get(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  p->globalL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  p->localL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  p->sharedMemPerMultiprocessor = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->sharedMemPerBlockOptin = bytes(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p->reservedSharedMemPerBlock = bytes(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->regsPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p->cooperativeLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  p->hostRegisterSupported = get(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  p->canUseHostPointerForRegisteredMem = get(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  return CUDA_SUCCESS;
}

cudaError_t entry_point(const char* symbol, void** function, int version, unsigned long long flags,
                        bool per_thread, cudaDriverEntryPointQueryResult* status) {
  cudaError_t why = cudaSuccess;
  if (driver(per_thread, &why) == nullptr) return finish(why);
  if (flags == cudaEnableDefault && per_thread) flags = cudaEnablePerThreadDefaultStream;
  CUdriverProcAddressQueryResult found{};
  const CUresult result = driver_lookup()(symbol, function, version, flags, &found);
  if (result == CUDA_SUCCESS && status != nullptr)
    *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return finish(as_runtime(result));
}

}  // namespace

SIMGPU_RUNTIME(cudaRuntimeGetVersion, (int* version)) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = kRuntimeVersion;
  return cudaSuccess;
}

SIMGPU_RUNTIME(cudaDriverGetVersion, (int* version)) {
  return call_driver([&](const DriverTable& d) { return d.cuDriverGetVersion(version); });
}

SIMGPU_RUNTIME(cudaGetDeviceCount, (int* count)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetCount(count); });
}

SIMGPU_RUNTIME(cudaGetDevice, (int* device)) {
  return call_driver([&](const DriverTable&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
  });
}

/// Also initialises the device's primary context, as of CUDA 12.
SIMGPU_RUNTIME(cudaSetDevice, (int device)) {
  return call_driver(
      [&](const DriverTable& d) { return device == 0 ? bind_primary(d) : CUDA_ERROR_INVALID_DEVICE; });
}

SIMGPU_RUNTIME(cudaInitDevice, (int device, unsigned, unsigned)) {
  return call_driver(
      [&](const DriverTable& d) { return device == 0 ? bind_primary(d) : CUDA_ERROR_INVALID_DEVICE; });
}

SIMGPU_RUNTIME(cudaSetDeviceFlags, (unsigned flags)) {
  return call_driver([&](const DriverTable& d) { return d.cuDevicePrimaryCtxSetFlags(0, flags); });
}

SIMGPU_RUNTIME(cudaGetDeviceFlags, (unsigned* flags)) {
  return call_driver([&](const DriverTable& d) {
    int active = 0;
    return d.cuDevicePrimaryCtxGetState(0, flags, &active);
  });
}

SIMGPU_RUNTIME(cudaGetDeviceProperties, (cudaDeviceProp * properties, int device)) {
  return call_driver([&](const DriverTable& d) {
    return properties == nullptr ? CUDA_ERROR_INVALID_VALUE : fill_properties(d, properties, device);
  });
}

SIMGPU_RUNTIME(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr which, int device)) {
  // The two enumerations number the same attributes alike.
  return call_driver([&](const DriverTable& d) {
    return d.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device);
  });
}

SIMGPU_RUNTIME(cudaDeviceCanAccessPeer, (int* can, int device, int peer)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceCanAccessPeer(can, device, peer); });
}

SIMGPU_RUNTIME(cudaDeviceGetPCIBusId, (char* text, int len, int device)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetPCIBusId(text, len, device); });
}

SIMGPU_RUNTIME(cudaDeviceGetByPCIBusId, (int* device, const char* text)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetByPCIBusId(device, text); });
}

SIMGPU_RUNTIME(cudaDeviceSynchronize, ()) {
  return call(false, [](const DriverTable& d) { return d.cuCtxSynchronize(); });
}

SIMGPU_RUNTIME(cudaDeviceReset, ()) {
  forget_binding();
  return call_driver([](const DriverTable& d) { return d.cuDevicePrimaryCtxReset(0); });
}

SIMGPU_RUNTIME_TWINS(cudaGetDriverEntryPointByVersion, _ptsz,
                     (const char* symbol, void** function, unsigned version, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* status),
                     symbol, function, version, flags, status) {
  return entry_point(symbol, function, static_cast<int>(version), flags, per_thread, status);
}

SIMGPU_RUNTIME_TWINS(cudaGetDriverEntryPoint, _ptsz,
                     (const char* symbol, void** function, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* status),
                     symbol, function, flags, status) {
  return entry_point(symbol, function, kRuntimeVersion, flags, per_thread, status);
}

}  // namespace simgpu::runtime
