#pragma once

#include <string>

#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu::cmd {

/// The report as JSON, schema "simgpu.report/1". Sizes end in _bytes. Counts are sums over all processes.
/// Calls and unknown entry points are objects from name to count; calls that were never made are left out.
std::string report_json(const Machine& machine, const Ending& ending);

}  // namespace simgpu::cmd
