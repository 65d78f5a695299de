#pragma once

#include <memory>
#include <string>

#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu::cmd {

/// The machine that the options describe: profiles read (by name from profiles/ in the folder of the
/// project's data), fault plan and role file checked. Throws UsageError where one of them cannot be used.
std::unique_ptr<MachineConfig> machine_config(const Options& options, const std::string& data_folder);

}  // namespace simgpu::cmd
