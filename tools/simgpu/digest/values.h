#pragma once

#include <cstdint>

#include "tools/simgpu/digest/access.h"

namespace simgpu::digest {

/// What a digest leaves in memory reads as a number from 0 to kLargestValue in every integer type, and as a
/// finite float in every floating-point type, at every address that is a multiple of the type's size.
///
/// How: of each eight bytes only the first is not zero, and it is at most 0x77. Integers are little-endian,
/// so each is that byte or zero. In binary64, binary32, binary16 and bfloat16 the exponent lies in the last
/// byte, which is zero: a subnormal number. In the 8-bit floats the byte itself has no exponent of ones (E5M2
/// has infinities from 0x7c on, E4M3 its NaN at 0x7f).
inline constexpr std::uint8_t kLargestValue = 0x77;

/// Fills the span with such values, which depend on the seed and on the distance from `base` alone. `base` is
/// a multiple of 8. Allocates nothing.
void write_values(const Span& span, std::uint64_t base, std::uint64_t seed);

}  // namespace simgpu::digest
