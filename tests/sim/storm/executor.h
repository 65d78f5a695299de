#pragma once

#include <cstdint>
#include <vector>

#include "tests/sim/storm/options.h"
#include "tests/sim/storm/program.h"

namespace storm {

/// What a run found.
struct Result {
  std::vector<std::uint64_t> digests;  ///< by operation; of checks
  int more_descriptors = 0;            ///< open ones at the end, less those after the first CUDA call
};

/// Runs the program with its threads, and ends the process with one line if a CUDA call fails (exit 3: out of
/// memory; 4: anything else) or a check reads what it should not (1).
Result execute(const Options& options, const Program& program);

}  // namespace storm
