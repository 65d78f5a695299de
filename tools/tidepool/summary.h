#pragma once

#include <string>
#include <vector>

#include "allocator/support/units.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {

/// "exit 3" or "killed by SIGTERM".
std::string ended_how(const Ending& ending);

/// What `tidepool run` says at the end, line by line and without the leading "tidepool: ". Empty if no
/// process used CUDA, unless `verbose`.
std::vector<std::string> summary_lines(const std::vector<ProcessStats>& processes, const Ending& ending,
                                       Nanos took, bool verbose);

}  // namespace tidepool::tools
