#pragma once

#include <cstdint>

#include "tools/probe/run.h"

namespace tidepool::probe {

/// What the calls cost that give a handle to an address and take it away, in nanoseconds.
struct CallCosts {
  Samples create, map, set_access, unmap, release;
};

/// Measures them one after the other with handles of this size. Throws DriverError.
CallCosts measure_calls(const Run& run, std::uint64_t bytes, Repeats repeats);

}  // namespace tidepool::probe
