#pragma once

#include <string_view>

#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/module.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// Fills in architecture and language version from the directives .version and .target; false if either is
/// missing, so that the text is not PTX.
bool ptx_target(std::string_view text, Entry* out);

/// Reads kernels (.entry and its .param list, PTX ISA "Kernel Function Directives"), and variables of global
/// and constant memory with their initial values. Code is passed over.
Problem read_ptx(std::string_view text, ModuleFacts* out);

}  // namespace simgpu::fatbin
