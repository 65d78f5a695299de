#include <algorithm>
#include <array>
#include <cstring>

#include "tools/simgpu/driver/api.h"

/// Managed memory of the CUDA driver API ("Memory Management", "Unified Addressing"): as far as programs only
/// allocate and touch it. It is host memory that every device may use; it is not counted as device memory and
/// does not move. Advice and prefetches are checked and remembered, and cost nothing.
namespace simgpu {
namespace {

PinnedRange* managed_range(Driver& d, std::uint64_t address, std::uint64_t bytes) {
  PinnedRange* range = d.host.range_at(address);
  if (range == nullptr || !range->managed || bytes > range->base + range->size - address) return nullptr;
  return range;
}

bool place_ok(const Driver& d, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return d.gpu_at(location.id) != nullptr;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return true;
    default:
      return false;
  }
}

int place_number(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

CUresult prefetch(Driver& d, Context& context, bool per_thread, CUdeviceptr address, std::size_t bytes,
                  const CUmemLocation& location, CUstream handle) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  PinnedRange* range = managed_range(d, address, bytes);
  if (bytes == 0 || range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!place_ok(d, location)) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult queued = enqueue(d, stream, Nothing{});
  if (queued == CUDA_SUCCESS) range->prefetched_to = place_number(location);
  return queued;
}

CUresult advise(Driver& d, CUdeviceptr address, std::size_t bytes, CUmem_advise advice,
                const CUmemLocation& location) {
  PinnedRange* range = managed_range(d, address, bytes);
  if (bytes == 0 || range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool needs_place = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
                           advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
                           advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (needs_place && !place_ok(d, location)) return CUDA_ERROR_INVALID_DEVICE;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      range->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      range->preferred = place_number(location);
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      range->preferred = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult range_attribute(Driver& d, void* out, std::size_t out_bytes, CUmem_range_attribute attribute,
                         CUdeviceptr address, std::size_t bytes) {
  const PinnedRange* range = managed_range(d, address, bytes);
  if (out == nullptr || range == nullptr || out_bytes < sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  int value = 0;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = range->read_mostly ? 1 : 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      value = range->preferred;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      value = range->prefetched_to;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API_CONTEXT(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned flags), out, bytes, flags) {
  if (out == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* memory = nullptr;
  const CUresult result = d.host.allocate(bytes, CU_MEMHOSTALLOC_PORTABLE, &context, &memory);
  if (result != CUDA_SUCCESS) return result;
  *out = reinterpret_cast<CUdeviceptr>(memory);
  d.host.range_at(*out)->managed = true;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuMemPrefetchAsync_v2, _ptsz,
                 (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),
                 address, bytes, location, flags, stream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return prefetch(d, context, per_thread, address, bytes, location, stream);
}

SIMGPU_API_CONTEXT(cuMemAdvise_v2,
                   (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location), address,
                   bytes, advice, location) {
  return advise(d, address, bytes, advice, location);
}

SIMGPU_API_CONTEXT(cuMemRangeGetAttribute,
                   (void* out, size_t out_bytes, CUmem_range_attribute attribute, CUdeviceptr address,
                    size_t bytes),
                   out, out_bytes, attribute, address, bytes) {
  return range_attribute(d, out, out_bytes, attribute, address, bytes);
}

SIMGPU_API_TWINS(cuStreamAttachMemAsync, _ptsz,
                 (CUstream handle, CUdeviceptr address, size_t bytes, unsigned flags), handle, address, bytes,
                 flags) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const PinnedRange* range = managed_range(d, address, 0);
  if (range == nullptr || (bytes != 0 && bytes != range->size) || flags > CU_MEM_ATTACH_SINGLE ||
      (flags & (flags - 1)) != 0 || flags == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(d, stream, Nothing{});
}

}  // namespace simgpu
