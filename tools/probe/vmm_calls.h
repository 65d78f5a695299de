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

/// What one call costs over many mappings of the smallest size that lie side by side, in nanoseconds.
struct SweepCosts {
  Samples set_access, unmap;
};

/// Measures it over `count` mappings. Throws DriverError.
SweepCosts measure_sweep(const Run& run, std::size_t count, Repeats repeats);

}  // namespace tidepool::probe
