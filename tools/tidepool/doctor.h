#pragma once

#include <string>
#include <vector>

namespace tidepool::tools {

enum class Verdict : char { kPass, kWarn, kFail };

/// One thing that was looked at.
struct Finding {
  Verdict verdict;
  std::string what;
  std::string remedy;  ///< what to do; empty where nothing is to be done
};

/// Everything of this machine and environment that matters to a run here.
std::vector<Finding> examine_machine();
/// What matters of a program, which is not started.
std::vector<Finding> examine_program(const char* name);

/// What a driver says of itself, asked in a process of its own: a driver that hangs or crashes is a finding,
/// too.
std::vector<Finding> examine_driver();

}  // namespace tidepool::tools
