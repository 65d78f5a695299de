#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "allocator/support/options.h"
#include "allocator/support/units.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/library_path.h"
#include "tools/tidepool/option_flags.h"
#include "tools/tidepool/preload_list.h"
#include "tools/tidepool/program_check.h"
#include "tools/tidepool/run_folder.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/summary.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {
namespace {

int refuse(const std::string& why) {
  say("run: %s", why.c_str());
  return kExitRefused;
}

/// Checks the variables that the job will see. False: it must not start. Of what it may start with, the
/// library warns, once the job uses CUDA.
bool accept_environment(std::unique_ptr<Options>& options) {
  const auto issues = std::make_unique<OptionIssues>();
  *options = load_options(environ, issues.get());
  if (!issues->any_error() && !(options->strict && issues->count() > 0)) return true;
  for (const OptionIssue& issue : issues->kept()) {
    if (!issue.is_unknown || options->strict) say("run: %s. See tidepool env", issue.text);
  }
  return false;
}

/// Puts the library in front of the program, or says why that cannot be.
std::optional<std::string> prepare_preload(const std::string& program) {
  const std::string library = library_path();
  if (access(library.c_str(), R_OK) != 0) {
    return "the library " + library + " cannot be read: " + std::strerror(errno) + ". Install Tidepool again";
  }
  if (library.find_first_of(": ") != library.npos) {
    return "the library " + library + " lies in a folder with a space or colon, which LD_PRELOAD cannot name";
  }
  const ProgramCheck check = check_preloadable(program, library);
  if (check.exit_code != 0) return check.complaint;
  setenv("LD_PRELOAD", preload_list(getenv("LD_PRELOAD"), library).c_str(), 1);
  return std::nullopt;
}

void say_summary(const RunFolder& folder, const std::set<std::string>& older, const Ending& ending,
                 Nanos took, bool verbose) {
  const std::vector<ProcessStats> processes = read_stats_pages(folder.path(), older);
  if (processes.empty()) {
    say("warning: the program ended (%s), but no process of this run had libtidepool.so loaded, so nothing "
        "was managed. Does the program clear LD_PRELOAD or its environment?",
        ended_how(ending).c_str());
    return;
  }
  for (const std::string& line : summary_lines(processes, ending, took, verbose)) say("%s", line.c_str());
}

}  // namespace

int run_command(std::span<char*> words) {
  std::string error;
  const RunArguments arguments = parse_run_arguments(words, &error);
  if (!error.empty()) return refuse(error);
  if (arguments.help) {
    std::fputs(usage_text(*find_command("run")).c_str(), stdout);
    return 0;
  }
  for (const auto& [row, value] : arguments.options) setenv(row->variable, value.c_str(), 1);
  auto options = std::make_unique<Options>();
  if (!accept_environment(options)) return kExitRefused;

  const ProgramCheck program = find_program(arguments.command[0]);
  if (program.exit_code != 0) {
    say("run: %s", program.complaint.c_str());
    return program.exit_code;
  }
  std::optional<RunFolder> folder;
  std::set<std::string> older;
  if (!options->disable) {
    if (const auto problem = prepare_preload(program.path)) return refuse(*problem);
    if (options->run_dir.empty()) {
      folder.emplace();
    } else {
      folder.emplace(options->run_dir.c_str());
    }
    if (folder->path().empty()) return refuse(folder->problem());
    setenv("TIDEPOOL_RUN_DIR", folder->path().c_str(), 1);
    older = list_stats_pages(folder->path());
  }

  const Nanos start = monotonic_now();
  const Ending ending = supervise(program.path, arguments.command.data(), environ);
  if (ending.start_errno != 0) {
    say("run: %s cannot be executed: %s", program.path.c_str(), std::strerror(ending.start_errno));
    return ending.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  if (folder && !options->quiet)
    say_summary(*folder, older, ending, monotonic_now() - start, arguments.verbose);
  if (!folder && !options->quiet && arguments.verbose) {
    say("done (%s). Tidepool is switched off (--disable or TIDEPOOL_DISABLE): nothing was managed.",
        ended_how(ending).c_str());
  }
  folder.reset();
  return end_like(ending);
}

}  // namespace tidepool::tools
