#pragma once

#include "tools/simgpu/runtime/driver_table.h"

namespace simgpu::runtime {

/// Where a library stands between this runtime and simgpu's driver, the driver cannot know which memory is
/// the program's and which copies are. Then the entries of this table that allocate, free and write memory
/// are replaced by functions that tell it and call the ones that were there. Otherwise nothing changes.
/// Called once for each table.
void tell_of_program_memory(DriverTable* table, bool per_thread);

}  // namespace simgpu::runtime
