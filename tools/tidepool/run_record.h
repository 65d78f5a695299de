#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "allocator/support/units.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {

/// What `tidepool run` itself leaves in the run's folder, since no process of the run can tell it: the file
/// `run.ID`, lines of a key and a value. Without it (the command was killed, or is of an earlier version)
/// readers know less.
struct RunRecord {
  bool is_watched = false;       ///< --mode observe
  std::optional<Ending> ending;  ///< of the program; empty while it runs
  Nanos took{};                  ///< from its start to its end
};

/// Writes the record of this run, in place of one before. What fails is no reason to fail: then it is left
/// out, and false returned.
bool write_run_record(const std::string& folder, const std::string& run_id, const RunRecord& record);

/// Is the record there?
bool has_run_record(const std::string& folder, const std::string& run_id);

/// What is there of it; nothing where the file is missing or another's.
RunRecord read_run_record(const std::string& folder, const std::string& run_id);

}  // namespace tidepool::tools
