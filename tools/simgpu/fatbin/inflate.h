#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// No entry may claim to be larger when inflated (the largest of CUDA 13's libraries has 134 MB).
inline constexpr std::uint64_t kLargestInflated = std::uint64_t{1} << 30;

/// The bytes of an entry, inflated into memory of its own, or where they lie if they are not compressed.
struct Inflated {
  std::unique_ptr<std::byte[]> owned;
  Bytes bytes;
};

/// Inflates one entry. The memory it takes is what the entry claims; nothing of it is touched before bytes
/// arrive. Fails unless exactly the claimed size comes out.
Problem inflate(const Entry& entry, Inflated* out, std::uint64_t largest = kLargestInflated);

}  // namespace simgpu::fatbin
