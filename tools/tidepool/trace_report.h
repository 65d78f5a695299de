#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/iteration.h"

namespace tidepool::tools {

/// What a trace tells. Lines have a title, which is empty if it is that of the line before.
struct TraceReport {
  struct Line {
    std::string title;
    std::string text;
  };
  std::string path;
  std::int64_t pid = 0;  ///< 0: it cannot be read, and the only line says why
  plan::IterationVerdict iterations;
  std::vector<Line> lines;
};

/// The traces of a run, sorted by name: `*.tptrace` in its folder. None: it was not recorded.
std::vector<std::string> list_traces(const std::string& run_folder);

/// Reads one: operations, what is missing of it, iterations or why there are none, and the blocks that moved
/// most bytes, `most_blocks` at most, with where they were allocated if that was recorded.
TraceReport read_trace_report(const std::string& path, std::size_t most_blocks = 10);

}  // namespace tidepool::tools
