#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/digest/kernel_roles.h"

namespace simgpu::digest {

/// Memory that a launch touches, in one piece.
struct Touched {
  Span span;
  Access access = Access::kNone;
  std::uint32_t extent = 0;  ///< its number in Ranges::extents
  bool exact =
      false;  ///< what is touched is known; otherwise the kernel may touch less of it, or other parts
  bool table = false;  ///< as in Reference
};

/// What a launch touches. Nothing overlaps; everything is in the order of the pointers, not of addresses.
struct Ranges {
  std::vector<Extent> extents;           ///< each once, in the order in which pointers name them
  std::vector<Touched> list;             ///< by extent, then ascending
  std::vector<std::uint32_t> extent_of;  ///< for each reference, its extent
};

/// Every pointer stands for the memory from there to the next pointer of the launch into the same extent, or
/// to its end. So tensors that share an allocation are apart where the launch names both.
Ranges find_ranges(const References& references, const Memory& memory);

}  // namespace simgpu::digest
