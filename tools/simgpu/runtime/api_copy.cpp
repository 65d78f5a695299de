#include "tools/simgpu/runtime/copy_params.h"
#include "tools/simgpu/runtime/variable.h"

/// Copies of "Memory Management" of the CUDA runtime API.

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

}  // namespace

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
  const cudaError_t error = slices(p, &c);
  if (error != cudaSuccess) return finish(error);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy3D(&c); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), p, stream) {
  CUDA_MEMCPY3D c{};
  const cudaError_t error = slices(p, &c);
  if (error != cudaSuccess) return finish(error);
  return call(per_thread, [&](const DriverTable& d) { return d.cuMemcpy3DAsync(&c, stream); });
}

SIMGPU_FORWARD_TWINS(
    cudaMemcpyBatchAsync, _ptsz,
    (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count,
     cudaMemcpyAttributes* attributes, size_t* first, size_t attribute_count, cudaStream_t stream),
    (dsts, srcs, sizes, count, attributes, first, attribute_count, stream),
    d.cuMemcpyBatchAsync(same<CUdeviceptr>(const_cast<void**>(dsts)),
                         same<CUdeviceptr>(const_cast<const void**>(srcs)), const_cast<size_t*>(sizes), count,
                         same<CUmemcpyAttributes>(attributes), first, attribute_count, stream))

SIMGPU_FORWARD_TWINS(cudaMemcpy3DBatchAsync, _ptsz,
                     (size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags,
                      cudaStream_t stream),
                     (count, operations, flags, stream),
                     d.cuMemcpy3DBatchAsync(count, same<CUDA_MEMCPY3D_BATCH_OP>(operations), flags, stream))

SIMGPU_RUNTIME_TWINS(cudaMemcpyToSymbol, _ptds,
                     (const void* symbol, const void* src, size_t n, size_t offset, cudaMemcpyKind kind),
                     symbol, src, n, offset, kind) {
  if (!to_variable(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return with_variable(per_thread, symbol, n, offset,
                       [&](const DriverTable& d, char* to) { return copy_linear(d, to, src, n, kind); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpyFromSymbol, _ptds,
                     (void* dst, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind), dst,
                     symbol, n, offset, kind) {
  if (!from_variable(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return with_variable(per_thread, symbol, n, offset,
                       [&](const DriverTable& d, char* from) { return copy_linear(d, dst, from, n, kind); });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpyToSymbolAsync, _ptsz,
                     (const void* symbol, const void* src, size_t n, size_t offset, cudaMemcpyKind kind,
                      cudaStream_t stream),
                     symbol, src, n, offset, kind, stream) {
  if (!to_variable(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return with_variable(per_thread, symbol, n, offset, [&](const DriverTable& d, char* to) {
    return copy_linear(d, to, src, n, kind, stream);
  });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpyFromSymbolAsync, _ptsz,
                     (void* dst, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind,
                      cudaStream_t stream),
                     dst, symbol, n, offset, kind, stream) {
  if (!from_variable(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  return with_variable(per_thread, symbol, n, offset, [&](const DriverTable& d, char* from) {
    return copy_linear(d, dst, from, n, kind, stream);
  });
}

}  // namespace simgpu::runtime
