#pragma once

#include <string>
#include <vector>

#include "tools/simgpu/driver/stream.h"
#include "tools/simgpu/ordering/access_history.h"
#include "tools/simgpu/timing/engines.h"

namespace simgpu {

/// What is known of an operation when it is queued: what it asks of the device, and which bytes it touches.
struct Footprint {
  timing::Work work;
  const std::string* name = nullptr;  ///< null: a wait or an event
  std::vector<ordering::Touch> touches;
};

/// Fills `out` anew. Called under the device lock, before the operation can have run.
///
/// Kernels with a body are asked for their declarations (see "simgpu/kernel.h"). A kernel takes its fixed
/// cost and the longer of two times: its bytes over the rate of the device's memory, each read and written
/// once, and its operations over the device's rate in single precision. Of a kernel that runs as a digest all
/// that its pointers reach counts, as inferred.
void footprint(const Stream& stream, const Operation& operation, Footprint* out);

/// Adds a touch for each piece of memory behind these addresses. What is mapped nowhere adds none.
void add_touches(std::uint64_t address, std::uint64_t bytes, bool write, bool inferred,
                 std::vector<ordering::Touch>* out);

/// True if the name, which a footprint has, is that of a kernel.
bool is_kernel_name(const std::string* name);

/// Nanoseconds that this many take at this many a second, eleven days at most.
std::int64_t nanoseconds(double amount, double per_second);

}  // namespace simgpu
