#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/iteration.h"

namespace tidepool::tools {

/// What a trace holds, in numbers.
struct TraceTotals {
  std::uint64_t launches = 0;
  std::uint64_t kernels = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t copies = 0;
  std::uint64_t threads = 0;
  std::uint64_t time_ns = 0;    ///< from the start of the trace to its last record
  std::uint64_t timed = 0;      ///< launches whose device time is known
  std::uint64_t device_ns = 0;  ///< of these
  std::uint64_t blocks_out = 0;
  std::uint64_t blocks_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  bool is_observed = false;
};

/// What a trace tells. Lines have a title, which is empty if it is that of the line before.
struct TraceReport {
  struct Line {
    std::string title;
    std::string text;
  };
  struct Kernel {
    std::string name;  ///< as in the source
    std::uint64_t timed = 0;
    std::uint64_t ns = 0;
  };
  /// Blocks of one size from one place in the program, or, where that is not known, one block.
  struct Moved {
    std::uint64_t bytes = 0;  ///< that moved, both ways
    std::uint64_t blocks = 0;
    std::uint64_t block_bytes = 0;
    std::uint64_t out = 0;
    std::uint64_t in = 0;
    std::string where;  ///< "train+0x1449 < train+0x14e2"; empty: not recorded
  };
  std::string path;
  std::int64_t pid = 0;  ///< 0: it cannot be read, and the only line says why
  plan::IterationVerdict iterations;
  std::vector<Line> lines;
  TraceTotals totals;
  std::vector<Kernel> kernels;  ///< those that took most time, first
  std::vector<Moved> blocks;    ///< those that moved most bytes, first
};

/// The traces of a run, sorted by name: `*.tptrace` in its folder. None: it was not recorded.
std::vector<std::string> list_traces(const std::string& run_folder);

/// Reads one: operations, what is missing of it, iterations or why there are none, and the blocks that moved
/// most bytes, `most_blocks` at most, with where they were allocated if that was recorded.
TraceReport read_trace_report(const std::string& path, std::size_t most_blocks = 10);

}  // namespace tidepool::tools
