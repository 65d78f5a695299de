#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "allocator/address_tables.h"
#include "shim/copy_extent.h"

/// What copies that have succeeded do to tables of addresses (runtime::AddressTables) in the memory that they
/// write: `note_written(arguments of the call...)`. To be called where any() is true, before the words that
/// came with the copy are put. Calls whose arguments tell nothing of the kind change no table.
namespace tidepool::shim {

/// Hook-safe, one load.
inline bool tables_exist() noexcept {
  return runtime::AddressTables::instance().any();
}

template <class... A>
void note_written(A...) noexcept {}

template <class... Rest>
void note_written(CUdeviceptr to, const void*, std::size_t size, Rest...) noexcept {
  runtime::AddressTables::instance().erase(to, size);
}
// Where the source is the host's no words lie in it.
template <class... Rest>
void note_written(CUdeviceptr to, CUdeviceptr from, std::size_t size, Rest...) noexcept {
  runtime::AddressTables::instance().copy(to, from, size);
}
template <class... Rest>
void note_written(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t size,
                  Rest...) noexcept {
  runtime::AddressTables::instance().copy(to, from, size);
}

/// `Shape` is CUDA_MEMCPY2D, CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER. Rows that follow each other without a gap
/// are no case of their own: a copy that meets a table is rare.
template <class Shape, class... Rest>
requires requires(const Shape& s) {
  s.srcPitch;
  s.dstPitch;
}
void note_written(const Shape* shape, Rest...) noexcept {
  if (shape == nullptr) return;
  runtime::AddressTables& tables = runtime::AddressTables::instance();
  const CopyExtent to = target_of(*shape);
  const CopyExtent from = source_of(*shape);
  const auto meets_table = [&](const CopyExtent& extent) {
    return extent.first != 0 && tables.lies_in(extent.first, extent.last - extent.first + 1);
  };
  if (to.first == 0 || (!meets_table(to) && !meets_table(from))) return;
  const std::size_t width = shape->WidthInBytes;
  const std::size_t to_pitch = shape->dstPitch != 0 ? shape->dstPitch : shape->dstXInBytes + width;
  const std::size_t from_pitch = shape->srcPitch != 0 ? shape->srcPitch : shape->srcXInBytes + width;
  std::size_t layers = 1;
  std::size_t to_layer = 0;
  std::size_t from_layer = 0;
  if constexpr (requires { shape->Depth; }) {
    layers = shape->Depth;
    to_layer = to_pitch * (shape->dstHeight != 0 ? shape->dstHeight : shape->dstY + shape->Height);
    from_layer = from_pitch * (shape->srcHeight != 0 ? shape->srcHeight : shape->srcY + shape->Height);
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t row = 0; row < shape->Height; ++row) {
      const std::uint64_t at = to.first + layer * to_layer + row * to_pitch;
      if (from.first == 0) {
        tables.erase(at, width);
      } else {
        tables.copy(at, from.first + layer * from_layer + row * from_pitch, width);
      }
    }
  }
}

}  // namespace tidepool::shim
