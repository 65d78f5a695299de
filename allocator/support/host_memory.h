#pragma once

#include "allocator/support/units.h"

namespace tidepool {

/// Memory that processes like this one may use together: the machine's, or less where a cgroup limits it
/// (v2 memory.max or v1 memory.limit_in_bytes at the root of the hierarchy that the process sees, as in a
/// container). Opens up to two files: call it at start, not on a launch path. Never zero.
Bytes host_memory() noexcept;

}  // namespace tidepool
