#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace tidepool::shim {

/// The first and the last byte of device memory that one side of a copy of rows reaches. What its description
/// calls the address need not lie in that memory: columns, rows and layers that are left out lead there.
struct CopyExtent {
  std::uint64_t first = 0;  ///< both 0: no address, the side is the host's or an array
  std::uint64_t last = 0;
};

namespace detail {
/// One side of a copy: cuda.h has all fields twice, as src* and as dst*
struct CopySide {
  CUmemorytype type;
  CUdeviceptr base;
  std::size_t x, y, z, pitch, height;
};

template <class Shape>
CopyExtent extent_of(const Shape& shape, const CopySide& side) noexcept {
  if (side.type == CU_MEMORYTYPE_HOST || side.type == CU_MEMORYTYPE_ARRAY) return {};
  // Without a pitch, rows follow each other; without a height, so do layers.
  const std::size_t pitch = side.pitch != 0 ? side.pitch : side.x + shape.WidthInBytes;
  CopyExtent extent{side.base + side.x + side.y * pitch, 0};
  std::uint64_t more = 0;
  if (shape.Height > 1) more += (shape.Height - 1) * pitch;
  if constexpr (requires { shape.Depth; }) {
    const std::size_t layer = pitch * (side.height != 0 ? side.height : side.y + shape.Height);
    extent.first += side.z * layer;
    if (shape.Depth > 1) more += (shape.Depth - 1) * layer;
  }
  extent.last = extent.first + more + (shape.WidthInBytes != 0 ? shape.WidthInBytes - 1 : 0);
  return extent;
}
}  // namespace detail

/// `Shape` is CUDA_MEMCPY2D, CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER. A description that the driver refuses gives
/// some addresses or others. Hook-safe.
template <class Shape>
CopyExtent source_of(const Shape& shape) noexcept {
  detail::CopySide side{
      shape.srcMemoryType, shape.srcDevice, shape.srcXInBytes, shape.srcY, 0, shape.srcPitch, 0};
  if constexpr (requires { shape.Depth; }) side.z = shape.srcZ, side.height = shape.srcHeight;
  return detail::extent_of(shape, side);
}

/// The same for where the copy goes.
template <class Shape>
CopyExtent target_of(const Shape& shape) noexcept {
  detail::CopySide side{
      shape.dstMemoryType, shape.dstDevice, shape.dstXInBytes, shape.dstY, 0, shape.dstPitch, 0};
  if constexpr (requires { shape.Depth; }) side.z = shape.dstZ, side.height = shape.dstHeight;
  return detail::extent_of(shape, side);
}

/// Adds to the set what a copy of rows reaches.
template <class Set, class Shape>
void add_reached(Set& set, const Shape& shape) noexcept {
  for (const CopyExtent& extent : {source_of(shape), target_of(shape)}) {
    set.add(extent.first);
    set.add(extent.last);
  }
}

}  // namespace tidepool::shim
