#pragma once

#include <cstdint>
#include <vector>

#include "tools/probe/memory.h"
#include "tools/probe/run.h"

namespace tidepool::probe {

/// Bytes of the handles that the exporter makes, in the order in which it sends them. The exporter writes
/// handle i with the pattern of seed i + 1.
std::vector<std::uint64_t> exported_sizes(bool quick);

/// What new memory holds: a handle is filled, released and created again, in one process and in two. Throws
/// DriverError.
void measure_scrubbing(const Run& run);

}  // namespace tidepool::probe
