#include "tools/simgpu/driver/host_cost.h"

#include <string_view>

namespace simgpu {
namespace {

using Cost = std::int64_t DeviceConfig::*;

struct Rule {
  std::string_view prefix;
  Cost cost;  ///< null: nothing
};

/// The first rule whose text begins the function's name decides; every other call costs cost_host_call_ns.
constexpr Rule kRules[] = {
    {"cuLaunchHostFunc", &DeviceConfig::cost_host_call_ns},
    {"cuLaunch", &DeviceConfig::cost_host_launch_ns},
    {"cuGraphLaunch", &DeviceConfig::cost_host_launch_ns},
    {"cuMemcpy", &DeviceConfig::cost_host_copy_ns},
    {"cuMemset", &DeviceConfig::cost_host_copy_ns},
    {"cuCtxGetCurrent", nullptr},  // reads a variable of the thread
    {"cuCtxSynchronize", &DeviceConfig::cost_host_sync_ns},
    {"cuStreamSynchronize", &DeviceConfig::cost_host_sync_ns},
    {"cuEventSynchronize", &DeviceConfig::cost_host_sync_ns},
    {"cuEventQuery", nullptr},
    {"cuStreamQuery", nullptr},
    {"cuMemAllocAsync", &DeviceConfig::cost_host_call_ns},
    {"cuMemAllocFromPoolAsync", &DeviceConfig::cost_host_call_ns},
    {"cuMemAllocHost", &DeviceConfig::cost_host_call_ns},
    {"cuMemAlloc", &DeviceConfig::cost_malloc_ns},
    {"cuMemFreeAsync", &DeviceConfig::cost_host_call_ns},
    {"cuMemFree", &DeviceConfig::cost_free_ns},
    {"cuMemHostUnregister", &DeviceConfig::cost_free_ns},
    {"cuMemAddressReserve", &DeviceConfig::vmm_reserve_ns},
    {"cuMemCreate", &DeviceConfig::vmm_create_ns},
    {"cuMemMap", &DeviceConfig::vmm_map_ns},
    {"cuMemSetAccess", &DeviceConfig::vmm_set_access_ns},
    {"cuMemUnmap", &DeviceConfig::vmm_unmap_ns},
    {"cuMemRelease", &DeviceConfig::vmm_release_ns},
};

constexpr Cost cost_of(std::string_view name) {
  for (const Rule& rule : kRules) {
    if (name.substr(0, rule.prefix.size()) == rule.prefix) return rule.cost;
  }
  return &DeviceConfig::cost_host_call_ns;
}

constexpr Cost kCosts[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) cost_of(#exported),
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

}  // namespace

std::int64_t host_cost(const DeviceConfig& config, std::size_t entry) {
  const Cost cost = kCosts[entry];
  return cost == nullptr ? 0 : config.*cost;
}

}  // namespace simgpu
