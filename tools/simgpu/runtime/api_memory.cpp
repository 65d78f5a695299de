#include <cstring>

#include "tools/simgpu/runtime/runtime.h"

/// Plain device memory, pinned host memory, pointers and memory of other processes: "Memory Management",
/// "Unified Addressing" and the interprocess part of "Device Management" of the CUDA runtime API.

namespace simgpu::runtime {
namespace {

CUresult allocate_rows(const DriverTable& d, void** out, std::size_t* pitch, std::size_t width,
                       std::size_t height) {
  constexpr unsigned kElementBytes = 16;
  return d.cuMemAllocPitch(same<CUdeviceptr>(out), pitch, width, height, kElementBytes);
}

cudaMemoryType type_of(unsigned type, bool managed) {
  if (managed) return cudaMemoryTypeManaged;
  if (type == CU_MEMORYTYPE_DEVICE) return cudaMemoryTypeDevice;
  return type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

}  // namespace

SIMGPU_RUNTIME(cudaMalloc, (void** out, size_t bytes)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (bytes != 0) return d.cuMemAlloc(same<CUdeviceptr>(out), bytes);
    *out = nullptr;
    return CUDA_SUCCESS;
  });
}

SIMGPU_FORWARD(cudaFree, (void* pointer),
               pointer == nullptr ? CUDA_SUCCESS : d.cuMemFree(device_address(pointer)))

SIMGPU_RUNTIME(cudaMallocPitch, (void** out, size_t* pitch, size_t width, size_t height)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return allocate_rows(d, out, pitch, width, height);
  });
}

SIMGPU_RUNTIME(cudaMalloc3D, (cudaPitchedPtr * out, cudaExtent extent)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    cudaPitchedPtr made{nullptr, 0, extent.width, extent.height};
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = allocate_rows(d, &made.ptr, &made.pitch, extent.width, rows);
    if (result == CUDA_SUCCESS) *out = made;
    return result;
  });
}

SIMGPU_FORWARD(cudaMallocHost, (void** out, size_t bytes), d.cuMemHostAlloc(out, bytes, 0))
SIMGPU_FORWARD(cudaHostAlloc, (void** out, size_t bytes, unsigned flags), d.cuMemHostAlloc(out, bytes, flags))
SIMGPU_FORWARD(cudaFreeHost, (void* pointer), pointer == nullptr ? CUDA_SUCCESS : d.cuMemFreeHost(pointer))
SIMGPU_FORWARD(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags),
               d.cuMemHostRegister(pointer, bytes, flags))
SIMGPU_FORWARD(cudaHostUnregister, (void* pointer), d.cuMemHostUnregister(pointer))
SIMGPU_FORWARD(cudaHostGetDevicePointer, (void** out, void* host, unsigned flags),
               d.cuMemHostGetDevicePointer(same<CUdeviceptr>(out), host, flags))
SIMGPU_FORWARD(cudaHostGetFlags, (unsigned* flags, void* host), d.cuMemHostGetFlags(flags, host))
SIMGPU_FORWARD(cudaMemGetInfo, (size_t * free, size_t* total), d.cuMemGetInfo(free, total))

SIMGPU_RUNTIME(cudaPointerGetAttributes, (cudaPointerAttributes * out, const void* pointer)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    unsigned managed = 0;
    int device = 0;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* where[] = {&type, &device, &device_pointer, &host_pointer, &managed};
    const CUresult result = d.cuPointerGetAttributes(5, which, where, device_address(pointer));
    if (result != CUDA_SUCCESS) return result;
    std::memset(out, 0, sizeof *out);
    out->type = type_of(type, (managed & 1) != 0);
    out->device = device;
    out->devicePointer = reinterpret_cast<void*>(device_pointer);
    // Host memory that CUDA does not know is reported with its own address.
    out->hostPointer = out->type == cudaMemoryTypeUnregistered ? const_cast<void*>(pointer) : host_pointer;
    return CUDA_SUCCESS;
  });
}

// Interprocess.
SIMGPU_FORWARD(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* pointer),
               d.cuIpcGetMemHandle(same<CUipcMemHandle>(handle), device_address(pointer)))
SIMGPU_FORWARD(cudaIpcOpenMemHandle, (void** out, cudaIpcMemHandle_t handle, unsigned flags),
               d.cuIpcOpenMemHandle(same<CUdeviceptr>(out), *same<CUipcMemHandle>(&handle), flags))
SIMGPU_FORWARD(cudaIpcCloseMemHandle, (void* pointer), d.cuIpcCloseMemHandle(device_address(pointer)))

}  // namespace simgpu::runtime
