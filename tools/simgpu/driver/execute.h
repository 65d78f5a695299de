#pragma once

#include "tools/simgpu/driver/stream.h"

namespace simgpu {

/// Counts work that is about to be queued for the fault plan.
void prepare(Operation& operation);

/// Runs one operation now, under the device lock. An illegal access is reported and ends the context: then
/// this returns false.
bool execute(const Stream& stream, const Operation& operation);

/// Moves the rows of a Copy, from its staged bytes if it has them. Takes and returns nothing else, as
/// run_guarded wants it.
void copy_rows(void* copy);

/// Calls a host function; CUDA calls inside it return CUDA_ERROR_NOT_PERMITTED. Without the device lock.
void run_host_function(const HostCall& call);
/// True while this thread is inside a host function.
bool in_host_function() noexcept;

}  // namespace simgpu
