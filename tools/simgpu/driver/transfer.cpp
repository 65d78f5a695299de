#include "tools/simgpu/driver/transfer.h"

#include <cstring>

#include "tools/simgpu/driver/guard.h"

namespace simgpu {
namespace {

/// Decides what an address is. False: it is said to be device memory and is not, or the other way round.
bool resolve(const Driver& d, Side side, std::uint64_t address, std::uint64_t extent, bool* is_device,
             bool* is_pinned) {
  const bool in_device = d.is_device_address(address);
  if (side == Side::kDevice && !in_device) {
    // Pinned host memory has a device address, the same one.
    if (!d.host.covers(address, extent)) return false;
  } else if (side == Side::kHost && in_device) {
    return false;
  }
  *is_device = in_device;
  *is_pinned = !in_device && d.host.covers(address, extent);
  return !in_device || d.owns_range(address, extent);
}

struct Gather {
  const Copy* copy;
  unsigned char* to;
};

void gather_rows(void* argument) {
  const Gather& g = *static_cast<const Gather*>(argument);
  const Copy& c = *g.copy;
  unsigned char* to = g.to;
  for (std::uint64_t z = 0; z < c.depth; ++z) {
    for (std::uint64_t y = 0; y < c.height; ++y) {
      std::memcpy(to, reinterpret_cast<const void*>(c.src + z * c.src_slice + y * c.src_pitch), c.width);
      to += c.width;
    }
  }
}

/// Takes the bytes of a pageable source now. An address that is not there is the caller's mistake.
CUresult stage(Copy* copy) {
  auto bytes = std::unique_ptr<unsigned char[]>(new (std::nothrow) unsigned char[copy->bytes()]);
  if (bytes == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Gather gather{copy, bytes.get()};
  Fault fault;
  if (!run_guarded(&gather_rows, &gather, &fault)) return CUDA_ERROR_INVALID_VALUE;
  copy->src = reinterpret_cast<std::uint64_t>(bytes.get());
  copy->src_pitch = copy->width;
  copy->src_slice = copy->width * copy->height;
  copy->staged = std::move(bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult transfer(Driver& d, Context& context, const std::shared_ptr<Stream>& stream,
                  const CopyRequest& request, bool synchronous) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Copy copy;
  copy.dst = request.dst;
  copy.src = request.src;
  copy.width = request.width;
  copy.height = request.height;
  copy.depth = request.depth;
  copy.dst_pitch = request.dst_pitch;
  copy.src_pitch = request.src_pitch;
  copy.dst_slice = request.dst_slice;
  copy.src_slice = request.src_slice;
  if (copy.bytes() == 0) return CUDA_SUCCESS;
  if (copy.dst == 0 || copy.src == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!resolve(d, request.dst_side, copy.dst, copy.extent(copy.dst_pitch, copy.dst_slice), &copy.dst_device,
               &copy.dst_pinned) ||
      !resolve(d, request.src_side, copy.src, copy.extent(copy.src_pitch, copy.src_slice), &copy.src_device,
               &copy.src_pinned)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool pageable_src = !copy.src_device && !copy.src_pinned;
  const bool pageable_dst = !copy.dst_device && !copy.dst_pinned;
  const bool host_only = !copy.src_device && !copy.dst_device;
  const bool device_only = copy.src_device && copy.dst_device;
  if (synchronous && pageable_src) {
    const CUresult before = wait_for(d, stream, enqueue(d, stream, Nothing{}));
    if (before != CUDA_SUCCESS) return before;
  }
  if (pageable_src && !host_only) {
    const CUresult staged = stage(&copy);
    if (staged != CUDA_SUCCESS) return staged;
  }
  const bool wait = pageable_dst || host_only || (synchronous && !device_only && !pageable_src);
  const std::uint64_t ticket = enqueue(d, stream, std::move(copy));
  return wait ? wait_for(d, stream, ticket) : context.sticky;
}

}  // namespace simgpu
