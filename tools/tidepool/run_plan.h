#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/support/options.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {

/// What `tidepool run` is going to do. The environment of this process is already the program's, but for the
/// run folder, which is made last.
struct RunPlan {
  RunArguments arguments;
  std::unique_ptr<Options> options;
  std::string program;                       ///< the file to execute
  std::string run_dir;                       ///< templates filled in; empty: a private folder
  std::vector<std::string> old_environment;  ///< what it was before
};

/// Reads the arguments and the configuration, checks options, program and library, and sets up the
/// environment. Empty: go on with `plan`; else the exit code, and what is wrong (or the help) has been said.
std::optional<int> prepare_run(std::span<char*> words, RunPlan& plan);

/// What --dry-run prints: the variables that are set and the command, to be given to a shell.
std::string dry_run_text(const RunPlan& plan);

/// What was asked for that does not go with memory that is only watched; empty: nothing. Looks at the
/// environment.
std::string problem_of_watching(const Options& options);

/// What was asked for though Tidepool is switched off: a budget by any way, or by a flag that memory is
/// managed or watched. Empty: nothing, or it is not off. Looks at the environment.
std::string problem_of_being_off(const RunPlan& plan);

/// Sets the variables of the configuration file that neither a variable nor a flag has set.
std::optional<std::string> apply_config(std::string_view named);

}  // namespace tidepool::tools
