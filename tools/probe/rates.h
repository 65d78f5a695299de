#pragma once

#include "tools/probe/run.h"

namespace tidepool::probe {

/// Compares the hash kernel with the definition in allocator/support/content_hash.h, and times it against
/// reading and copying the same memory. Throws DriverError.
void measure_hash(const Run& run);

/// Bytes per second by the device's events: reading, copying (read and written counted) and hashing.
struct DeviceRates {
  Samples read, copied, hashed;
};

/// Measures them over this much memory, of which it takes twice as much. Throws DriverError.
DeviceRates measure_device_rates(const Run& run, std::uint64_t bytes, Repeats repeats);

}  // namespace tidepool::probe
