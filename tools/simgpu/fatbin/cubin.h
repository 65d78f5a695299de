#pragma once

#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/module.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// Reads kernels and variables of a linked cubin; kRelocatable for one that still has to be linked.
Problem read_cubin(Bytes file, ModuleFacts* out);

}  // namespace simgpu::fatbin
