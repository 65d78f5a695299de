#include "tools/simgpu/driver/capability_limits.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace simgpu {
namespace {

constexpr int kKiB = 1024;
constexpr std::array<CapabilityLimits, 8> kCapabilities{{
    {70, 2048, 32, 96 * kKiB, 96 * kKiB, 0},
    {75, 1024, 16, 64 * kKiB, 64 * kKiB, 0},
    {80, 2048, 32, 164 * kKiB, 163 * kKiB, kKiB},
    {86, 1536, 16, 100 * kKiB, 99 * kKiB, kKiB},
    {89, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
    {90, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {100, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {120, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
}};

}  // namespace

const CapabilityLimits& limits_of(const DeviceConfig& config) {
  const int number = config.compute_major * 10 + config.compute_minor;
  const auto later = std::find_if(kCapabilities.begin(), kCapabilities.end(),
                                  [&](const CapabilityLimits& c) { return c.number > number; });
  return later == kCapabilities.begin() ? kCapabilities.front() : *std::prev(later);
}

}  // namespace simgpu
