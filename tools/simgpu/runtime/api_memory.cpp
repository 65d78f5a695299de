#include <cstring>

#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

CUresult copy_linear(const DriverTable& d, void* dst, const void* src, std::size_t n, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return d.cuMemcpyHtoD(device_address(dst), src, n);
    case cudaMemcpyDeviceToHost:
      return d.cuMemcpyDtoH(dst, device_address(src), n);
    case cudaMemcpyDeviceToDevice:
      return d.cuMemcpyDtoD(device_address(dst), device_address(src), n);
    default:
      return d.cuMemcpy(device_address(dst), device_address(src), n);
  }
}

CUresult copy_linear(const DriverTable& d, void* dst, const void* src, std::size_t n, cudaMemcpyKind kind,
                     cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return d.cuMemcpyHtoDAsync(device_address(dst), src, n, stream);
    case cudaMemcpyDeviceToHost:
      return d.cuMemcpyDtoHAsync(dst, device_address(src), n, stream);
    case cudaMemcpyDeviceToDevice:
      return d.cuMemcpyDtoDAsync(device_address(dst), device_address(src), n, stream);
    default:
      return d.cuMemcpyAsync(device_address(dst), device_address(src), n, stream);
  }
}

bool known_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

/// What one side of a copy of this kind is. The driver reads unified addresses from the device field.
CUmemorytype side_of(cudaMemcpyKind kind, bool destination) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
      return destination ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
      return destination ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

template <class Descriptor>
void set_sides(Descriptor* c, void* dst, const void* src, cudaMemcpyKind kind) {
  c->srcMemoryType = side_of(kind, false);
  c->dstMemoryType = side_of(kind, true);
  c->srcHost = src;
  c->srcDevice = device_address(src);
  c->dstHost = dst;
  c->dstDevice = device_address(dst);
}

CUDA_MEMCPY2D rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D c{};
  set_sides(&c, dst, src, kind);
  c.srcPitch = src_pitch;
  c.dstPitch = dst_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return c;
}

/// False for copies from or to arrays, which do not exist here.
bool slices(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* c) {
  if (p == nullptr || p->srcArray != nullptr || p->dstArray != nullptr || !known_kind(p->kind)) return false;
  set_sides(c, p->dstPtr.ptr, p->srcPtr.ptr, p->kind);
  c->srcXInBytes = p->srcPos.x;
  c->srcY = p->srcPos.y;
  c->srcZ = p->srcPos.z;
  c->srcPitch = p->srcPtr.pitch;
  c->srcHeight = p->srcPtr.ysize;
  c->dstXInBytes = p->dstPos.x;
  c->dstY = p->dstPos.y;
  c->dstZ = p->dstPos.z;
  c->dstPitch = p->dstPtr.pitch;
  c->dstHeight = p->dstPtr.ysize;
  c->WidthInBytes = p->extent.width;
  c->Height = p->extent.height;
  c->Depth = p->extent.depth;
  return true;
}

unsigned char byte_of(int value) {
  return static_cast<unsigned char>(value);
}

}  // namespace

SIMGPU_RUNTIME(cudaMalloc, (void** out, size_t bytes)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
      *out = nullptr;
      return CUDA_SUCCESS;
    }
    CUdeviceptr address = 0;
    const CUresult result = d.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(address);
    return result;
  });
}

SIMGPU_RUNTIME(cudaFree, (void* pointer)) {
  return call(false, [&](const DriverTable& d) {
    return pointer == nullptr ? CUDA_SUCCESS : d.cuMemFree(device_address(pointer));
  });
}

SIMGPU_RUNTIME(cudaMallocPitch, (void** out, size_t* pitch, size_t width, size_t height)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    constexpr unsigned kElementBytes = 16;
    CUdeviceptr address = 0;
    const CUresult result = d.cuMemAllocPitch(&address, pitch, width, height, kElementBytes);
    if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(address);
    return result;
  });
}

SIMGPU_RUNTIME(cudaMallocHost, (void** out, size_t bytes)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemHostAlloc(out, bytes, 0); });
}

SIMGPU_RUNTIME(cudaHostAlloc, (void** out, size_t bytes, unsigned flags)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemHostAlloc(out, bytes, flags); });
}

SIMGPU_RUNTIME(cudaFreeHost, (void* pointer)) {
  return call(false, [&](const DriverTable& d) {
    return pointer == nullptr ? CUDA_SUCCESS : d.cuMemFreeHost(pointer);
  });
}

SIMGPU_RUNTIME(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemHostRegister(pointer, bytes, flags); });
}

SIMGPU_RUNTIME(cudaHostUnregister, (void* pointer)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemHostUnregister(pointer); });
}

SIMGPU_RUNTIME(cudaHostGetDevicePointer, (void** out, void* host, unsigned flags)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult result = d.cuMemHostGetDevicePointer(&address, host, flags);
    if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(address);
    return result;
  });
}

SIMGPU_RUNTIME(cudaHostGetFlags, (unsigned* flags, void* host)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemHostGetFlags(flags, host); });
}

SIMGPU_RUNTIME(cudaMemGetInfo, (size_t * free, size_t* total)) {
  return call(false, [&](const DriverTable& d) { return d.cuMemGetInfo(free, total); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy, _ptds, (void* dst, const void* src, size_t n, cudaMemcpyKind kind), dst, src,
                     n, kind) {
  if (!known_kind(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return call(per_thread, [&](const DriverTable& d) { return copy_linear(d, dst, src, n, kind); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpyAsync, _ptsz,
                     (void* dst, const void* src, size_t n, cudaMemcpyKind kind, cudaStream_t stream), dst,
                     src, n, kind, stream) {
  if (!known_kind(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return call(per_thread, [&](const DriverTable& d) { return copy_linear(d, dst, src, n, kind, stream); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy2D, _ptds,
                     (void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind),
                     dst, dst_pitch, src, src_pitch, width, height, kind) {
  if (!known_kind(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  const CUDA_MEMCPY2D c = rows(dst, dst_pitch, src, src_pitch, width, height, kind);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy2DUnaligned(&c); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy2DAsync, _ptsz,
                     (void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                     dst, dst_pitch, src, src_pitch, width, height, kind, stream) {
  if (!known_kind(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  const CUDA_MEMCPY2D c = rows(dst, dst_pitch, src, src_pitch, width, height, kind);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy2DAsync(&c, stream); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), p) {
  CUDA_MEMCPY3D c{};
  if (!slices(p, &c)) return finish(cudaErrorInvalidValue);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy3D(&c); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), p, stream) {
  CUDA_MEMCPY3D c{};
  if (!slices(p, &c)) return finish(cudaErrorInvalidValue);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy3DAsync(&c, stream); });
}

SIMGPU_RUNTIME_TWINS(cudaMemset, _ptds, (void* dst, int value, size_t n), dst, value, n) {
  return call(per_thread,
              [&](const DriverTable& d) { return d.cuMemsetD8(device_address(dst), byte_of(value), n); });
}

SIMGPU_RUNTIME_TWINS(cudaMemsetAsync, _ptsz, (void* dst, int value, size_t n, cudaStream_t stream), dst,
                     value, n, stream) {
  return call(per_thread, [&](const DriverTable& d) {
    return d.cuMemsetD8Async(device_address(dst), byte_of(value), n, stream);
  });
}

SIMGPU_RUNTIME_TWINS(cudaMemset2D, _ptds, (void* dst, size_t pitch, int value, size_t width, size_t height),
                     dst, pitch, value, width, height) {
  return call(per_thread, [&](const DriverTable& d) {
    return d.cuMemsetD2D8(device_address(dst), pitch, byte_of(value), width, height);
  });
}

SIMGPU_RUNTIME_TWINS(cudaMemset2DAsync, _ptsz,
                     (void* dst, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                     dst, pitch, value, width, height, stream) {
  return call(per_thread, [&](const DriverTable& d) {
    return d.cuMemsetD2D8Async(device_address(dst), pitch, byte_of(value), width, height, stream);
  });
}

SIMGPU_RUNTIME(cudaPointerGetAttributes, (cudaPointerAttributes * out, const void* pointer)) {
  return call(false, [&](const DriverTable& d) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    int device = 0;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* where[] = {&type, &device, &device_pointer, &host_pointer};
    const CUresult result = d.cuPointerGetAttributes(4, which, where, device_address(pointer));
    if (result != CUDA_SUCCESS) return result;
    std::memset(out, 0, sizeof *out);
    out->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
    out->device = device;
    out->devicePointer = reinterpret_cast<void*>(device_pointer);
    // Host memory that CUDA does not know is reported with its own address.
    out->hostPointer = out->type == cudaMemoryTypeUnregistered ? const_cast<void*>(pointer) : host_pointer;
    return CUDA_SUCCESS;
  });
}

}  // namespace simgpu::runtime
