#include "tools/simgpu/driver/transfer.h"

/// Memsets of the CUDA driver API. All forms return before the device has done the work, except that the
/// synchronous ones wait where the target is pinned host memory ("API synchronization behavior").
namespace simgpu {
namespace {

CUresult fill(Driver& d, Context& context, const std::shared_ptr<Stream>& stream, const Fill& request,
              bool synchronous) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult checked = check_fill(d, request);
  if (checked != CUDA_SUCCESS || request.extent() == 0) return checked;
  const bool pinned = d.host.covers(request.dst, request.extent());
  const CUresult allowed = synchronous ? may_wait(*stream) : CUDA_SUCCESS;
  if (allowed != CUDA_SUCCESS) return allowed;
  Fill work = request;
  work.program = d.program.claims_write(work.dst, 0);
  std::uint64_t ticket = 0;
  const CUresult queued = enqueue(d, stream, std::move(work), &ticket);
  if (queued != CUDA_SUCCESS) return queued;
  return synchronous && pinned ? wait_for(d, stream, ticket) : context.sticky;
}

Fill rows(CUdeviceptr dst, std::uint64_t pitch, std::uint32_t element, std::uint32_t value,
          std::uint64_t width, std::uint64_t height) {
  Fill f;
  f.dst = dst;
  f.pitch = pitch;
  f.element = element;
  f.value = value;
  f.width = width;
  f.height = height;
  return f;
}

}  // namespace

#define SIMGPU_MEMSETS(sync_name, async_name, sync_2d_name, async_2d_name, Value, element)                   \
  SIMGPU_API_TWINS(sync_name, _ptds, (CUdeviceptr dst, Value value, size_t n), dst, value, n) {              \
    return fill(d, context, d.find_stream(&context, nullptr, per_thread),                                    \
                rows(dst, 0, element, value, n, 1), true);                                                   \
  }                                                                                                          \
  SIMGPU_API_TWINS(async_name, _ptsz, (CUdeviceptr dst, Value value, size_t n, CUstream stream), dst, value, \
                   n, stream) {                                                                              \
    return fill(d, context, d.find_stream(&context, stream, per_thread), rows(dst, 0, element, value, n, 1), \
                false);                                                                                      \
  }                                                                                                          \
  SIMGPU_API_TWINS(sync_2d_name, _ptds,                                                                      \
                   (CUdeviceptr dst, size_t pitch, Value value, size_t width, size_t height), dst, pitch,    \
                   value, width, height) {                                                                   \
    return fill(d, context, d.find_stream(&context, nullptr, per_thread),                                    \
                rows(dst, pitch, element, value, width, height), true);                                      \
  }                                                                                                          \
  SIMGPU_API_TWINS(                                                                                          \
      async_2d_name, _ptsz,                                                                                  \
      (CUdeviceptr dst, size_t pitch, Value value, size_t width, size_t height, CUstream stream), dst,       \
      pitch, value, width, height, stream) {                                                                 \
    return fill(d, context, d.find_stream(&context, stream, per_thread),                                     \
                rows(dst, pitch, element, value, width, height), false);                                     \
  }

SIMGPU_MEMSETS(cuMemsetD8_v2, cuMemsetD8Async, cuMemsetD2D8_v2, cuMemsetD2D8Async, unsigned char, 1)
SIMGPU_MEMSETS(cuMemsetD16_v2, cuMemsetD16Async, cuMemsetD2D16_v2, cuMemsetD2D16Async, unsigned short, 2)
SIMGPU_MEMSETS(cuMemsetD32_v2, cuMemsetD32Async, cuMemsetD2D32_v2, cuMemsetD2D32Async, unsigned int, 4)

}  // namespace simgpu
