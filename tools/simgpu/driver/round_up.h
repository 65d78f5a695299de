#pragma once

#include <cstdint>

namespace simgpu {

/// The least multiple of `unit` that is at least n.
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace simgpu
