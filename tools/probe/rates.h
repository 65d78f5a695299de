#pragma once

#include "tools/probe/run.h"

namespace tidepool::probe {

/// Compares the hash kernel with the definition in hash.h, and times it against reading and copying the same
/// memory. Throws DriverError.
void measure_hash(const Run& run);

}  // namespace tidepool::probe
