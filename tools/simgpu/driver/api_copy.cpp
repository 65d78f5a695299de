#include "tools/simgpu/driver/transfer.h"

/// Copies of the CUDA driver API's "Memory Management" page.
namespace simgpu {
namespace {

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

CUresult copy_2d(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, const CUDA_MEMCPY2D* c,
                 bool synchronous) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto src = copy_end(c->srcMemoryType, c->srcHost, c->srcDevice);
  const auto dst = copy_end(c->dstMemoryType, c->dstHost, c->dstDevice);
  if (!src || !dst) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest r;
  r.src_side = src->side;
  r.dst_side = dst->side;
  r.width = c->WidthInBytes;
  r.height = c->Height;
  // A pitch of 0 stands for rows without gaps.
  r.src_pitch = c->srcPitch == 0 ? c->srcXInBytes + r.width : c->srcPitch;
  r.dst_pitch = c->dstPitch == 0 ? c->dstXInBytes + r.width : c->dstPitch;
  if (r.src_pitch < c->srcXInBytes + r.width || r.dst_pitch < c->dstXInBytes + r.width) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  r.src = src->base + c->srcY * r.src_pitch + c->srcXInBytes;
  r.dst = dst->base + c->dstY * r.dst_pitch + c->dstXInBytes;
  return transfer(d, context, stream, r, synchronous);
}

CUresult copy_3d(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, const CUDA_MEMCPY3D* c,
                 bool synchronous) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest r;
  const CUresult result = request_of(*c, &r);
  return result == CUDA_SUCCESS ? transfer(d, context, stream, r, synchronous) : result;
}

}  // namespace

SIMGPU_API_TWINS(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), dst, src, n) {
  return transfer(d, context, d.find_stream(&context, nullptr, per_thread),
                  CopyRequest::linear(dst, Side::kUnified, src, Side::kUnified, n), true);
}

SIMGPU_API_TWINS(cuMemcpyAsync, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), dst,
                 src, n, stream) {
  return transfer(d, context, d.find_stream(&context, stream, per_thread),
                  CopyRequest::linear(dst, Side::kUnified, src, Side::kUnified, n), false);
}

SIMGPU_API_TWINS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void* src, size_t n), dst, src, n) {
  return transfer(d, context, d.find_stream(&context, nullptr, per_thread),
                  CopyRequest::linear(dst, Side::kDevice, address_of(src), Side::kHost, n), true);
}

SIMGPU_API_TWINS(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr dst, const void* src, size_t n, CUstream stream),
                 dst, src, n, stream) {
  return transfer(d, context, d.find_stream(&context, stream, per_thread),
                  CopyRequest::linear(dst, Side::kDevice, address_of(src), Side::kHost, n), false);
}

SIMGPU_API_TWINS(cuMemcpyDtoH_v2, _ptds, (void* dst, CUdeviceptr src, size_t n), dst, src, n) {
  return transfer(d, context, d.find_stream(&context, nullptr, per_thread),
                  CopyRequest::linear(address_of(dst), Side::kHost, src, Side::kDevice, n), true);
}

SIMGPU_API_TWINS(cuMemcpyDtoHAsync_v2, _ptsz, (void* dst, CUdeviceptr src, size_t n, CUstream stream), dst,
                 src, n, stream) {
  return transfer(d, context, d.find_stream(&context, stream, per_thread),
                  CopyRequest::linear(address_of(dst), Side::kHost, src, Side::kDevice, n), false);
}

SIMGPU_API_TWINS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t n), dst, src, n) {
  return transfer(d, context, d.find_stream(&context, nullptr, per_thread),
                  CopyRequest::linear(dst, Side::kDevice, src, Side::kDevice, n), true);
}

SIMGPU_API_TWINS(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
                 dst, src, n, stream) {
  return transfer(d, context, d.find_stream(&context, stream, per_thread),
                  CopyRequest::linear(dst, Side::kDevice, src, Side::kDevice, n), false);
}

SIMGPU_API_TWINS(cuMemcpyPeer, _ptds,
                 (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t n),
                 dst, dst_context, src, src_context, n) {
  if (!d.contexts.contains(dst_context) || !d.contexts.contains(src_context))
    return CUDA_ERROR_INVALID_CONTEXT;
  return transfer(d, context, d.find_stream(&context, nullptr, per_thread),
                  CopyRequest::between(dst, d.contexts.at(dst_context), src, d.contexts.at(src_context), n),
                  true);
}

SIMGPU_API_TWINS(cuMemcpyPeerAsync, _ptsz,
                 (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t n,
                  CUstream stream),
                 dst, dst_context, src, src_context, n, stream) {
  if (!d.contexts.contains(dst_context) || !d.contexts.contains(src_context))
    return CUDA_ERROR_INVALID_CONTEXT;
  return transfer(d, context, d.find_stream(&context, stream, per_thread),
                  CopyRequest::between(dst, d.contexts.at(dst_context), src, d.contexts.at(src_context), n),
                  false);
}

SIMGPU_API_TWINS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy), copy) {
  return copy_2d(d, context, d.find_stream(&context, nullptr, per_thread), copy, true);
}

SIMGPU_API_TWINS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy), copy) {
  return copy_2d(d, context, d.find_stream(&context, nullptr, per_thread), copy, true);
}

SIMGPU_API_TWINS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* copy, CUstream stream), copy, stream) {
  return copy_2d(d, context, d.find_stream(&context, stream, per_thread), copy, false);
}

SIMGPU_API_TWINS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy), copy) {
  return copy_3d(d, context, d.find_stream(&context, nullptr, per_thread), copy, true);
}

SIMGPU_API_TWINS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* copy, CUstream stream), copy, stream) {
  return copy_3d(d, context, d.find_stream(&context, stream, per_thread), copy, false);
}

}  // namespace simgpu
