#include "tools/simgpu/runtime/runtime.h"

/// Memsets of "Memory Management" of the CUDA runtime API.

namespace simgpu::runtime {
namespace {

unsigned char byte_of(int value) {
  return static_cast<unsigned char>(value);
}

/// Sets `extent` of a pitched allocation: rows of all slices at once where they follow each other, else slice
/// by slice. `set(first row, rows)`.
template <class Set>
CUresult set_slices(const cudaPitchedPtr& p, const cudaExtent& extent, Set&& set) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  if (extent.width > p.pitch || (extent.depth > 1 && extent.height > p.ysize))
    return CUDA_ERROR_INVALID_VALUE;
  if (extent.depth == 1 || extent.height == p.ysize)
    return set(device_address(p.ptr), extent.height * extent.depth);
  CUresult result = CUDA_SUCCESS;
  for (std::size_t z = 0; z < extent.depth && result == CUDA_SUCCESS; ++z)
    result = set(device_address(p.ptr) + z * p.pitch * p.ysize, extent.height);
  return result;
}

}  // namespace

SIMGPU_FORWARD_TWINS(cudaMemset, _ptds, (void* dst, int value, size_t n), (dst, value, n),
                     d.cuMemsetD8(device_address(dst), byte_of(value), n))

SIMGPU_FORWARD_TWINS(cudaMemsetAsync, _ptsz, (void* dst, int value, size_t n, cudaStream_t stream),
                     (dst, value, n, stream),
                     d.cuMemsetD8Async(device_address(dst), byte_of(value), n, stream))

SIMGPU_FORWARD_TWINS(cudaMemset2D, _ptds, (void* dst, size_t pitch, int value, size_t width, size_t height),
                     (dst, pitch, value, width, height),
                     d.cuMemsetD2D8(device_address(dst), pitch, byte_of(value), width, height))

SIMGPU_FORWARD_TWINS(cudaMemset2DAsync, _ptsz,
                     (void* dst, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                     (dst, pitch, value, width, height, stream),
                     d.cuMemsetD2D8Async(device_address(dst), pitch, byte_of(value), width, height, stream))

SIMGPU_RUNTIME_TWINS(cudaMemset3D, _ptds, (cudaPitchedPtr p, int value, cudaExtent extent), p, value,
                     extent) {
  return call(per_thread, [&](const DriverTable& d) {
    return set_slices(p, extent, [&](CUdeviceptr at, std::size_t height) {
      return d.cuMemsetD2D8(at, p.pitch, byte_of(value), extent.width, height);
    });
  });
}

SIMGPU_RUNTIME_TWINS(cudaMemset3DAsync, _ptsz,
                     (cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream), p, value, extent,
                     stream) {
  return call(per_thread, [&](const DriverTable& d) {
    return set_slices(p, extent, [&](CUdeviceptr at, std::size_t height) {
      return d.cuMemsetD2D8Async(at, p.pitch, byte_of(value), extent.width, height, stream);
    });
  });
}

}  // namespace simgpu::runtime
