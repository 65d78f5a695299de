#pragma once

#include <cstdint>

#include "tools/simgpu/driver/guard.h"
#include "tools/simgpu/driver/operation.h"

namespace simgpu {

/// What a body calls while it runs; see SimgpuGrid.
struct BodyCalls {
  void (*check_range)(const void* address, std::size_t bytes, int is_write);
  void (*work)(double operations);
};

/// Calls the kernel's body for this launch in a guarded region, under the device lock. `mode` is a set of
/// SIMGPU_GRID_ flags. False if it was left early, with *fault filled.
bool run_body(const Launch& launch, std::uint32_t mode, const BodyCalls& calls, Fault* fault);

}  // namespace simgpu
