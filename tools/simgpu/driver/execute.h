#pragma once

#include <cstdint>
#include <string>

#include "tools/simgpu/driver/stream.h"

namespace simgpu {

/// How an operation went.
struct Executed {
  std::int64_t cost_ns = 0;  ///< fixed cost plus bytes over the rate of the way they took: coarse on purpose
  bool failed = false;       ///< its context is in an error from now on
};

/// Counts work that is about to be queued for the fault plan.
void prepare(Operation& operation);

/// Runs one operation now, under the device lock. An illegal access is reported and ends the context.
Executed execute(const Stream& stream, const Operation& operation, std::int64_t start_ns);

/// A function's name as its source has it, where it can be told from the symbol.
std::string readable_name(const std::string& symbol);

/// Calls a host function; CUDA calls inside it return CUDA_ERROR_NOT_PERMITTED. Without the device lock.
void run_host_function(const HostCall& call);
/// True while this thread is inside a host function.
bool in_host_function() noexcept;

}  // namespace simgpu
