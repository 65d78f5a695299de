#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/probe/memory.h"
#include "tools/probe/run.h"

namespace tidepool::probe {

/// Bytes of the handles that the exporter makes, in the order in which it sends them. The exporter writes
/// handle i with the pattern of seed i + 1.
std::vector<std::uint64_t> exported_sizes(bool quick);

/// What free memory did around the end of an exporter, bytes.
struct ReturnedMemory {
  std::int64_t shared;             ///< the handles that were imported
  std::int64_t exporter_overhead;  ///< what the exporter took besides them: its context
  std::int64_t gained_at_death;
  std::int64_t gained_at_release;
};

/// When the shared memory came back: "release by importer", "death of exporter" or "neither"; "unclear" where
/// a gain is further from what each of them would give than a tenth of the shared bytes.
std::string memory_returns_at(const ReturnedMemory& memory);

/// What new memory holds: a handle is filled, released and created again, in one process and in two. Throws
/// DriverError.
void measure_scrubbing(const Run& run);

}  // namespace tidepool::probe
