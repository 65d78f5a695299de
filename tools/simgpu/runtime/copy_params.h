#pragma once

#include <cuda_runtime_api.h>

#include "tools/simgpu/runtime/driver_api.h"

namespace simgpu::runtime {

/// The runtime's descriptions of copies and the driver's.

bool known_kind(cudaMemcpyKind kind);

CUDA_MEMCPY2D rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind);

/// A copy of `n` bytes in one row.
CUDA_MEMCPY3D one_row(void* dst, const void* src, std::size_t n, cudaMemcpyKind kind);

/// cudaErrorNotSupported for copies from or to arrays, which do not exist here; cudaErrorInvalidValue or
/// cudaErrorInvalidMemcpyDirection for parameters that are wrong.
cudaError_t slices(const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* c);

/// What `slices` took, out of what it made.
cudaMemcpy3DParms unslice(const CUDA_MEMCPY3D& c);

}  // namespace simgpu::runtime
