#include "tools/simgpu/runtime/device_properties.h"
#include "tools/simgpu/runtime/runtime.h"

/// "Device Management" and "Version Management" of the CUDA runtime API.

namespace simgpu::runtime {
namespace {

constexpr unsigned kDeviceFlags =
    cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;

/// How many of the properties that were asked for (those that are not 0) a device has.
int matches(const cudaDeviceProp& want, const cudaDeviceProp& has) {
  const auto enough = [](auto wanted, auto found) { return wanted != 0 && found >= wanted ? 1 : 0; };
  const bool capable = has.major > want.major || (has.major == want.major && has.minor >= want.minor);
  return (want.major != 0 && capable ? 1 : 0) + enough(want.totalGlobalMem, has.totalGlobalMem) +
         enough(want.multiProcessorCount, has.multiProcessorCount) +
         enough(want.sharedMemPerBlock, has.sharedMemPerBlock) + enough(want.regsPerBlock, has.regsPerBlock) +
         enough(want.maxThreadsPerBlock, has.maxThreadsPerBlock) + enough(want.l2CacheSize, has.l2CacheSize) +
         enough(want.asyncEngineCount, has.asyncEngineCount) +
         enough(want.concurrentKernels, has.concurrentKernels) +
         enough(want.cooperativeLaunch, has.cooperativeLaunch) +
         enough(want.managedMemory, has.managedMemory) +
         enough(want.memoryPoolsSupported, has.memoryPoolsSupported);
}

}  // namespace

SIMGPU_RUNTIME(cudaRuntimeGetVersion, (int* version)) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

/// Version 0 is no driver at all.
SIMGPU_RUNTIME(cudaDriverGetVersion, (int* version)) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  const DriverTable* d = installed_driver();
  if (d != nullptr) return finish(as_runtime(d->cuDriverGetVersion(version)));
  *version = 0;
  return cudaSuccess;
}

SIMGPU_RUNTIME(cudaGetDeviceCount, (int* count)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetCount(count); });
}

SIMGPU_RUNTIME(cudaGetDevice, (int* device)) {
  return call_driver([&](const DriverTable& d) {
    return device == nullptr ? CUDA_ERROR_INVALID_VALUE : current_device(d, device);
  });
}

/// Also initialises the device's primary context, as of CUDA 12.
SIMGPU_RUNTIME(cudaSetDevice, (int device)) {
  return call_driver([&](const DriverTable& d) { return select_device(d, device); });
}

SIMGPU_RUNTIME(cudaInitDevice, (int device, unsigned device_flags, unsigned flags)) {
  return call_driver([&](const DriverTable& d) {
    CUdevice found = 0;
    CUresult result = d.cuDeviceGet(&found, device);
    if (result != CUDA_SUCCESS) return result;
    const bool with_flags = flags == cudaInitDeviceFlagsAreValid;
    if ((flags != 0 && !with_flags) || (with_flags && (device_flags & ~kDeviceFlags) != 0))
      return CUDA_ERROR_INVALID_VALUE;
    if (with_flags) result = d.cuDevicePrimaryCtxSetFlags(found, device_flags);
    CUcontext primary = nullptr;
    return result == CUDA_SUCCESS ? primary_context(d, device, &primary) : result;
  });
}

SIMGPU_RUNTIME(cudaSetDeviceFlags, (unsigned flags)) {
  return call_driver([&](const DriverTable& d) {
    int device = 0;
    if ((flags & ~kDeviceFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = current_device(d, &device);
    if (result == CUDA_SUCCESS) result = d.cuDevicePrimaryCtxSetFlags(device, flags);
    return result == CUDA_SUCCESS ? bind_context(d) : result;
  });
}

SIMGPU_RUNTIME(cudaGetDeviceFlags, (unsigned* flags)) {
  return call_driver([&](const DriverTable& d) {
    CUcontext current = nullptr;
    int active = 0;
    int device = 0;
    CUresult result = d.cuCtxGetCurrent(&current);
    if (result != CUDA_SUCCESS) return result;
    if (current != nullptr) return d.cuCtxGetFlags(flags);
    result = current_device(d, &device);
    return result == CUDA_SUCCESS ? d.cuDevicePrimaryCtxGetState(device, flags, &active) : result;
  });
}

SIMGPU_RUNTIME(cudaGetDeviceProperties, (cudaDeviceProp * properties, int device)) {
  return call_driver([&](const DriverTable& d) {
    return properties == nullptr ? CUDA_ERROR_INVALID_VALUE : fill_properties(d, properties, device);
  });
}

/// The first of the devices that have most of what was asked for.
SIMGPU_RUNTIME(cudaChooseDevice, (int* device, const cudaDeviceProp* want)) {
  return call_driver([&](const DriverTable& d) {
    if (device == nullptr || want == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int count = 0;
    int best = 0;
    int best_score = -1;
    CUresult result = d.cuDeviceGetCount(&count);
    for (int candidate = 0; result == CUDA_SUCCESS && candidate < count; ++candidate) {
      cudaDeviceProp has{};
      result = fill_properties(d, &has, candidate);
      const int score = matches(*want, has);
      if (score > best_score) best = candidate;
      if (score > best_score) best_score = score;
    }
    if (result == CUDA_SUCCESS) *device = best;
    return result;
  });
}

SIMGPU_RUNTIME(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr which, int device)) {
  // The two enumerations number the same attributes alike.
  return call_driver([&](const DriverTable& d) {
    return d.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device);
  });
}

SIMGPU_RUNTIME(cudaDeviceGetPCIBusId, (char* text, int len, int device)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetPCIBusId(text, len, device); });
}

SIMGPU_RUNTIME(cudaDeviceGetByPCIBusId, (int* device, const char* text)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceGetByPCIBusId(device, text); });
}

SIMGPU_FORWARD(cudaDeviceSynchronize, (), d.cuCtxSynchronize())

SIMGPU_RUNTIME(cudaDeviceReset, ()) {
  return call_driver([](const DriverTable& d) { return reset_device(d); });
}

SIMGPU_RUNTIME(cudaDeviceGetHostAtomicCapabilities,
               (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count, int device)) {
  return call_driver([&](const DriverTable& d) {
    return d.cuDeviceGetHostAtomicCapabilities(capabilities, same<CUatomicOperation>(operations), count,
                                               device);
  });
}

SIMGPU_FORWARD(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
               d.cuCtxGetStreamPriorityRange(least, greatest))
SIMGPU_FORWARD(cudaDeviceSetLimit, (cudaLimit limit, size_t value),
               d.cuCtxSetLimit(static_cast<CUlimit>(limit), value))
SIMGPU_FORWARD(cudaDeviceGetLimit, (size_t * value, cudaLimit limit),
               d.cuCtxGetLimit(value, static_cast<CUlimit>(limit)))
SIMGPU_FORWARD(cudaDeviceSetCacheConfig, (cudaFuncCache config),
               d.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)))
SIMGPU_FORWARD(cudaDeviceGetCacheConfig, (cudaFuncCache * config),
               d.cuCtxGetCacheConfig(same<CUfunc_cache>(config)))
SIMGPU_FORWARD(cudaDeviceSetSharedMemConfig, (cudaSharedMemConfig config),
               d.cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config)))
SIMGPU_FORWARD(cudaDeviceGetSharedMemConfig, (cudaSharedMemConfig * config),
               d.cuCtxGetSharedMemConfig(same<CUsharedconfig>(config)))
SIMGPU_FORWARD(cudaCtxResetPersistingL2Cache, (), d.cuCtxResetPersistingL2Cache())
SIMGPU_FORWARD(cudaDeviceFlushGPUDirectRDMAWrites,
               (cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope),
               d.cuFlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                            static_cast<CUflushGPUDirectRDMAWritesScope>(scope)))

// Profiler Control.
SIMGPU_FORWARD(cudaProfilerStart, (), d.cuProfilerStart())
SIMGPU_FORWARD(cudaProfilerStop, (), d.cuProfilerStop())

}  // namespace simgpu::runtime
