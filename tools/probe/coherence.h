#pragma once

#include <cstdint>

#include "tools/probe/run.h"

namespace tidepool::probe {

/// Writes through one address of a handle and reads through another, in every combination of kernels and
/// copies, one and two streams, with and without programmatic launches; and the same through a single
/// address, which shows what would be wrong anyway. Writes an answer "wrong_words" for each, and before them
/// "checker_finds": what the same checks count where every word is wrong. Throws DriverError.
void check_coherence(const Run& run, std::uint64_t handle_bytes);

}  // namespace tidepool::probe
