#include "tools/simgpu/driver/transfer.h"

#include <cstring>
#include <new>

#include "tools/simgpu/driver/footprint.h"
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

/// False if the bytes from the first to behind the last one are more than addresses can tell.
bool extent_fits(const Copy& c, std::uint64_t base, std::uint64_t pitch, std::uint64_t slice) {
  std::uint64_t slices = 0;
  std::uint64_t rows = 0;
  std::uint64_t end = 0;
  if (c.width == 0 || c.height == 0 || c.depth == 0) return true;
  return !__builtin_mul_overflow(c.depth - 1, slice, &slices) &&
         !__builtin_mul_overflow(c.height - 1, pitch, &rows) && !__builtin_add_overflow(slices, rows, &end) &&
         !__builtin_add_overflow(end, c.width, &end) && !__builtin_add_overflow(end, base, &end);
}

/// So much of a synchronous copy is still on its way when the call returns, at most.
constexpr std::uint64_t kInFlight = std::uint64_t{1} << 20;

void copy_head(void* argument) {
  const Copy& c = *static_cast<const Copy*>(argument);
  std::memcpy(reinterpret_cast<void*>(c.dst), reinterpret_cast<const void*>(c.src), c.arrived);
}

/// The same for a copy before which its stream has nothing left to do: hardware moves it piece by piece
/// through a small buffer, so all but the last pieces have arrived when the call returns.
void send_head(Copy* copy) {
  if (copy->height != 1 || copy->depth != 1 || copy->width <= 2 * kInFlight) return;
  copy->arrived = copy->width - kInFlight;
  Fault fault;
  // What is wrong is said where the copy as a whole runs.
  if (!run_guarded(&copy_head, copy, &fault)) copy->arrived = 0;
}

/// Takes the bytes of a pageable source now. An address that is not there is the caller's mistake.
CUresult stage(Copy* copy) {
  EarlyRead read;
  if (!make_early_read(*copy, &read)) return CUDA_ERROR_OUT_OF_MEMORY;
  Fault fault;
  if (!run_guarded(&copy_rows, &read.rows, &fault)) return CUDA_ERROR_INVALID_VALUE;
  copy->staged = std::move(read.to);
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<CopyEnd> copy_end(CUmemorytype type, const void* host, CUdeviceptr device) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return CopyEnd{Side::kHost, reinterpret_cast<std::uint64_t>(host)};
    case CU_MEMORYTYPE_DEVICE:
      return CopyEnd{Side::kDevice, device};
    case CU_MEMORYTYPE_UNIFIED:
      return CopyEnd{Side::kUnified, device};
    default:
      return std::nullopt;
  }
}

CUresult request_of(const CUDA_MEMCPY3D& c, CopyRequest* out) {
  if (c.srcLOD != 0 || c.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto src = copy_end(c.srcMemoryType, c.srcHost, c.srcDevice);
  const auto dst = copy_end(c.dstMemoryType, c.dstHost, c.dstDevice);
  if (!src || !dst) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest r;
  r.src_side = src->side;
  r.dst_side = dst->side;
  r.width = c.WidthInBytes;
  r.height = c.Height;
  r.depth = c.Depth;
  r.src_pitch = c.srcPitch == 0 ? c.srcXInBytes + r.width : c.srcPitch;
  r.dst_pitch = c.dstPitch == 0 ? c.dstXInBytes + r.width : c.dstPitch;
  const std::uint64_t src_rows = c.srcHeight == 0 ? c.srcY + r.height : c.srcHeight;
  const std::uint64_t dst_rows = c.dstHeight == 0 ? c.dstY + r.height : c.dstHeight;
  if (r.src_pitch < c.srcXInBytes + r.width || r.dst_pitch < c.dstXInBytes + r.width ||
      src_rows < c.srcY + r.height || dst_rows < c.dstY + r.height) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (__builtin_mul_overflow(src_rows, r.src_pitch, &r.src_slice) ||
      __builtin_mul_overflow(dst_rows, r.dst_pitch, &r.dst_slice)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  r.src = src->base + c.srcZ * r.src_slice + c.srcY * r.src_pitch + c.srcXInBytes;
  r.dst = dst->base + c.dstZ * r.dst_slice + c.dstY * r.dst_pitch + c.dstXInBytes;
  *out = r;
  return CUDA_SUCCESS;
}

CUresult make_copy(const Driver& d, const CopyRequest& request, Copy* out) {
  Copy& copy = *out;
  copy.dst = request.dst;
  copy.src = request.src;
  copy.width = request.width;
  copy.height = request.height;
  copy.depth = request.depth;
  copy.dst_pitch = request.dst_pitch;
  copy.src_pitch = request.src_pitch;
  copy.dst_slice = request.dst_slice;
  copy.src_slice = request.src_slice;
  copy.dst_context = request.dst_context;
  copy.src_context = request.src_context;
  if (copy.dst == 0 || copy.src == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!extent_fits(copy, copy.dst, copy.dst_pitch, copy.dst_slice) ||
      !extent_fits(copy, copy.src, copy.src_pitch, copy.src_slice)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!resolve(d, request.dst_side, copy.dst, copy.extent(copy.dst_pitch, copy.dst_slice), &copy.dst_device,
               &copy.dst_pinned) ||
      !resolve(d, request.src_side, copy.src, copy.extent(copy.src_pitch, copy.src_slice), &copy.src_device,
               &copy.src_pinned)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

bool make_early_read(const Copy& copy, EarlyRead* out) {
  Copy& rows = out->rows;
  rows = copy;
  rows.src += copy.arrived;
  rows.width -= copy.arrived;
  rows.arrived = 0;
  out->to.reset(new (std::nothrow) unsigned char[rows.bytes()]);
  if (out->to == nullptr) return false;
  rows.dst = reinterpret_cast<std::uint64_t>(out->to.get());
  rows.dst_pitch = rows.width;
  rows.dst_slice = rows.width * rows.height;
  rows.dst_device = rows.dst_pinned = false;
  return true;
}

CUresult check_fill(const Driver& d, const Fill& request) {
  if (request.dst % request.element != 0 || request.pitch % request.element != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Copy rows;
  rows.height = request.height;
  if (__builtin_mul_overflow(request.width, request.element, &rows.width) ||
      !extent_fits(rows, request.dst, request.pitch, 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (request.height > 1 && request.pitch < request.width * request.element) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t extent = request.extent();
  if (extent == 0 || d.host.covers(request.dst, extent) || d.owns_range(request.dst, extent)) {
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult transfer(Driver& d, Context& context, const std::shared_ptr<Stream>& stream,
                  const CopyRequest& request, bool synchronous) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (request.width == 0 || request.height == 0 || request.depth == 0) return CUDA_SUCCESS;
  Copy copy;
  const CUresult made = make_copy(d, request, &copy);
  if (made != CUDA_SUCCESS) return made;
  copy.program = d.program.claims_write(copy.dst, copy.src);
  const CUresult allowed = synchronous ? may_wait(*stream) : CUDA_SUCCESS;
  if (allowed != CUDA_SUCCESS) return allowed;
  if (stream->capture != nullptr) return enqueue(d, stream, std::move(copy));  // the node reads when it runs
  const bool pageable_src = !copy.src_device && !copy.src_pinned;
  const bool pageable_dst = !copy.dst_device && !copy.dst_pinned;
  const bool host_only = !copy.src_device && !copy.dst_device;
  const bool device_only = copy.src_device && copy.dst_device;
  if (synchronous && pageable_src) {
    std::uint64_t mark = 0;
    CUresult before = enqueue(d, stream, Nothing{}, &mark);
    if (before == CUDA_SUCCESS) before = wait_for(d, stream, mark);
    if (before != CUDA_SUCCESS) return before;
    // A fault plan may want to keep any piece of it from arriving.
    if (copy.dst_device && !d.faults.active()) send_head(&copy);
  }
  if (pageable_src && !host_only) {
    const CUresult staged = stage(&copy);
    if (staged != CUDA_SUCCESS) return staged;
    // The profile has no rate for the host's part of it; it is taken to be as fast as the link.
    d.ledger.charge(
        nanoseconds(static_cast<double>(copy.bytes()), context.gpu->config.link_h2d_bytes_per_second));
  }
  const bool wait = pageable_dst || host_only || (synchronous && !device_only && !pageable_src);
  std::uint64_t ticket = 0;
  const CUresult queued = enqueue(d, stream, std::move(copy), &ticket);
  if (queued != CUDA_SUCCESS) return queued;
  return wait ? wait_for(d, stream, ticket) : context.sticky;
}

}  // namespace simgpu
