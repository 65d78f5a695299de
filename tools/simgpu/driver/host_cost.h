#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/machine/machine.h"

namespace simgpu {

/// What a call of the driver function with this row of entries.def costs the host, in nanoseconds, apart from
/// what depends on sizes and from waiting. A question whether work is done costs nothing here: how often a
/// program asks before the answer is yes depends on the seed, and its time must not.
std::int64_t host_cost(const DeviceConfig& config, std::size_t entry);

/// What `bytes` cost at so much for each MiB.
constexpr std::int64_t per_mib(std::int64_t nanos, std::uint64_t bytes) {
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  return nanos * static_cast<std::int64_t>((bytes + kMib - 1) / kMib);
}

}  // namespace simgpu
