#pragma once

#include <string>

#include "tools/simgpu/machine/machine.h"

namespace simgpu::cmd {

/// Makes the trace's file, with the names of the devices and their engines; the processes of the machine
/// append what the engines did. False if it cannot be written; errno says why.
bool begin_trace(const std::string& file, const MachineConfig& config);

/// Closes the list of events, so that the file is JSON, whoever was killed. False as above.
bool end_trace(const std::string& file);

}  // namespace simgpu::cmd
