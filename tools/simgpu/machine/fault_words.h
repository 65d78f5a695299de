#pragma once

#include "allocator/support/fault_plan.h"

namespace simgpu {

/// The names that a fault plan for the driver may use: the functions of driver/entries.def, by exported and
/// by base name, and the error codes of cuda.h.
tidepool::FaultWords fault_words();

}  // namespace simgpu
