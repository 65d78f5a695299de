#include "tools/simgpu/runtime/copy_params.h"

#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

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

cudaMemcpyKind kind_of(CUmemorytype src, CUmemorytype dst) {
  if (src == CU_MEMORYTYPE_UNIFIED || dst == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (src == CU_MEMORYTYPE_HOST)
    return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

bool known_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
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

CUDA_MEMCPY3D one_row(void* dst, const void* src, std::size_t n, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D c{};
  set_sides(&c, dst, src, kind);
  c.srcPitch = c.dstPitch = c.WidthInBytes = n;
  c.srcHeight = c.dstHeight = c.Height = c.Depth = 1;
  return c;
}

cudaError_t slices(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* c) {
  if (p == nullptr) return cudaErrorInvalidValue;
  if (!known_kind(p->kind)) return cudaErrorInvalidMemcpyDirection;
  if (p->srcArray != nullptr || p->dstArray != nullptr) return cudaErrorNotSupported;
  *c = {};
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
  return cudaSuccess;
}

cudaMemcpy3DParms unslice(const CUDA_MEMCPY3D& c) {
  const auto address = [](CUmemorytype type, const void* host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  cudaMemcpy3DParms p{};
  p.srcPos = {c.srcXInBytes, c.srcY, c.srcZ};
  p.srcPtr = {address(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcPitch, c.srcPitch, c.srcHeight};
  p.dstPos = {c.dstXInBytes, c.dstY, c.dstZ};
  p.dstPtr = {address(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstPitch, c.dstPitch, c.dstHeight};
  p.extent = {c.WidthInBytes, c.Height, c.Depth};
  p.kind = kind_of(c.srcMemoryType, c.dstMemoryType);
  return p;
}

}  // namespace simgpu::runtime
