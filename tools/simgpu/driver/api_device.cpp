#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/capability_limits.h"

namespace simgpu {
namespace {

/// Devices sit on buses of their own, numbered from 1.
std::string pci_bus_id(int ordinal) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(ordinal + 1));
  return text;
}

/// What a profile states comes from there, what follows from the compute capability from its table; clocks,
/// caches and the bus are those of an H100. Attributes that are not listed are 0: the feature is absent.
int attribute_value(const Gpu& gpu, CUdevice_attribute attribute) {
  const DeviceConfig& config = gpu.config;
  const CapabilityLimits& limits = limits_of(config);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      return config.compute_major >= 9 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return config.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return config.compute_minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return config.compute_multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return limits.shared_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return limits.shared_per_sm;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return limits.reserved_per_block;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return limits.threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return limits.blocks_per_sm;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return config.link_copy_engines;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return gpu.ordinal + 1;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:  // 1: descriptors
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

CUuuid device_uuid(const Gpu& gpu) {
  CUuuid uuid{};
  std::snprintf(uuid.bytes, sizeof uuid.bytes, "simgpu%x%.8s", static_cast<unsigned>(gpu.ordinal),
                static_cast<const char*>(gpu.config.name));
  return uuid;
}

CUresult read_uuid(const Driver& d, CUuuid* uuid, CUdevice dev) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = device_uuid(*gpu);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
  count_call(Entry::cuInit);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return start_driver();
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuDriverGetVersion(int* version) {
  count_call(Entry::cuDriverGetVersion);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetCount, (int* count), count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(d.gpus.size());
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGet, (CUdevice * dev, int ordinal), dev, ordinal) {
  if (dev == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (d.gpu_at(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *dev = ordinal;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetName, (char* name, int len, CUdevice dev), name, len, dev) {
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(len), "%s", static_cast<const char*>(gpu->config.name));
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetUuid, (CUuuid * uuid, CUdevice dev), uuid, dev) {
  return read_uuid(d, uuid, dev);
}
SIMGPU_API(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), uuid, dev) {
  return read_uuid(d, uuid, dev);
}

SIMGPU_API(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), bytes, dev) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = gpu->physical.capacity();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice dev), value, attribute,
           dev) {
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute_value(*gpu, attribute);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceComputeCapability, (int* major, int* minor, CUdevice dev), major, minor, dev) {
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *major = gpu->config.compute_major;
  *minor = gpu->config.compute_minor;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetPCIBusId, (char* text, int len, CUdevice dev), text, len, dev) {
  if (text == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<std::size_t>(len), "%s", pci_bus_id(gpu->ordinal).c_str());
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetByPCIBusId, (CUdevice * dev, const char* text), dev, text) {
  if (dev == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& gpu : d.gpus) {
    if (pci_bus_id(gpu->ordinal) != text) continue;
    *dev = gpu->ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIMGPU_API(cuDeviceCanAccessPeer, (int* can, CUdevice dev, CUdevice peer), can, dev, peer) {
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (d.gpu_at(dev) == nullptr || d.gpu_at(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *can = dev != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
