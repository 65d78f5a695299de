#pragma once

#include <optional>

#include "tools/simgpu/driver/api.h"

namespace simgpu {

/// What the caller says an address is; kUnified leaves it to the address itself.
enum class Side { kUnified, kHost, kDevice };

/// One copy as a call describes it.
struct CopyRequest {
  Side dst_side = Side::kUnified, src_side = Side::kUnified;
  std::uint64_t dst = 0, src = 0;
  std::uint64_t width = 0, height = 1, depth = 1;
  std::uint64_t dst_pitch = 0, src_pitch = 0;
  std::uint64_t dst_slice = 0, src_slice = 0;
  const Context* dst_context = nullptr;  ///< as in Copy
  const Context* src_context = nullptr;

  /// A linear copy.
  static CopyRequest linear(std::uint64_t dst, Side dst_side, std::uint64_t src, Side src_side,
                            std::uint64_t bytes) {
    CopyRequest r;
    r.dst = dst;
    r.dst_side = dst_side;
    r.src = src;
    r.src_side = src_side;
    r.width = bytes;
    return r;
  }
  /// A linear copy of device memory between two contexts.
  static CopyRequest between(std::uint64_t dst, const Context* dst_context, std::uint64_t src,
                             const Context* src_context, std::uint64_t bytes) {
    CopyRequest r = linear(dst, Side::kDevice, src, Side::kDevice, bytes);
    r.dst_context = dst_context;
    r.src_context = src_context;
    return r;
  }
};

/// One side of a 2D or 3D copy.
struct CopyEnd {
  Side side;
  std::uint64_t base;
};
/// Nothing for arrays, which are not supported.
std::optional<CopyEnd> copy_end(CUmemorytype type, const void* host, CUdeviceptr device);

/// The request that a 3D copy's structure stands for. CUDA_ERROR_INVALID_VALUE for arrays and for pitches and
/// heights that are too small.
CUresult request_of(const CUDA_MEMCPY3D& copy, CopyRequest* out);

/// The copy for a request, with what its two ends are; the geometry is filled in even on failure.
/// CUDA_ERROR_INVALID_VALUE for null, for device addresses that no allocation or mapping covers, and for rows
/// beyond all addresses.
CUresult make_copy(const Driver& d, const CopyRequest& request, Copy* out);

/// The operation that takes the copy's source bytes into a buffer, which is to become its `staged`. False if
/// there is no memory for it.
bool make_early_read(const Copy& copy, EarlyRead* out);

/// CUDA_ERROR_INVALID_VALUE for a memset of misaligned rows, or of memory that the program does not have.
CUresult check_fill(const Driver& d, const Fill& request);

/// Queues a copy and waits as long as the page "API synchronization behavior" says. In both forms a pageable
/// source is read during the call and a pinned one when the copy executes; a copy into pageable host memory
/// is complete on return, and so is every copy between host addresses. The synchronous form also waits for
/// copies between pinned host memory and the device, but not for device to device, nor for the last leg of
/// a pageable source's way to the device.
///
/// CUDA_ERROR_INVALID_VALUE for device addresses that no allocation or mapping covers at the call.
CUresult transfer(Driver& d, Context& context, const std::shared_ptr<Stream>& stream,
                  const CopyRequest& request, bool synchronous);

}  // namespace simgpu
