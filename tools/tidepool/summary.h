#pragma once

#include <string>
#include <vector>

#include "allocator/support/units.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {

/// "exit 3" or "killed by SIGTERM".
std::string ended_how(const Ending& ending);

/// Continues "N" or "process 7 (train) n": "eeded 74.0 MiB, fitted in 37.0 MiB (peak 36.0 MiB). Swapped ...".
/// A program that was refused memory may have gone on with less, so then it does not say that it fitted.
/// `is_watched`: its memory was the driver's, and nothing could move (--mode observe).
std::string needed(const ProcessStats& process, bool is_watched = false);

/// What `tidepool run` says at the end, line by line and without the leading "tidepool: ". Empty if no
/// process used CUDA, unless `verbose`.
std::vector<std::string> summary_lines(const std::vector<ProcessStats>& processes, const Ending& ending,
                                       Nanos took, bool verbose, bool is_watched = false);

}  // namespace tidepool::tools
