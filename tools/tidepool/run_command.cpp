#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "allocator/support/units.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/progress.h"
#include "tools/tidepool/run_folder.h"
#include "tools/tidepool/run_plan.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/summary.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {
namespace {

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

/// Makes the folder of the run and tells the program of it; empty where that cannot be, and `problem` says
/// why.
std::optional<RunFolder>& make_folder(const RunPlan& plan, std::optional<RunFolder>& folder) {
  if (plan.run_dir.empty()) {
    folder.emplace();
  } else {
    folder.emplace(plan.run_dir);
  }
  if (!folder->path().empty()) setenv("TIDEPOOL_RUN_DIR", folder->path().c_str(), 1);
  return folder;
}

}  // namespace

int run_command(std::span<char*> words) {
  RunPlan plan;
  if (const auto code = prepare_run(words, plan)) return *code;
  if (plan.arguments.flags.has("--dry-run")) return std::fputs(dry_run_text(plan).c_str(), stdout), 0;
  const bool verbose = plan.arguments.flags.has("--verbose");
  const bool quiet = plan.options->quiet;

  std::optional<RunFolder> folder;
  std::set<std::string> older;
  if (!plan.options->disable) {
    if (make_folder(plan, folder)->path().empty())
      return say("run: %s", folder->problem().c_str()), kExitRefused;
    older = list_stats_pages(folder->path());
  }

  const Nanos start = monotonic_now();
  std::optional<ProgressLine> progress;
  if (folder && !quiet && plan.arguments.flags.has("--progress"))
    progress.emplace(folder->path(), older, start);
  Ticker ticker;
  if (progress && progress->is_shown()) {
    ticker = [&] {
      progress->draw();
      return ProgressLine::kPeriod;
    };
  }
  const Ending ending = supervise(plan.program, plan.arguments.command.data(), environ, ticker);
  if (progress) progress->clear();
  if (ending.start_errno != 0) {
    say("run: %s cannot be executed: %s", plan.program.c_str(), std::strerror(ending.start_errno));
    return ending.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  if (folder && !quiet) say_summary(*folder, older, ending, monotonic_now() - start, verbose);
  if (!folder && !quiet && verbose) {
    say("done (%s). Tidepool is switched off (--disable or TIDEPOOL_DISABLE): nothing was managed.",
        ended_how(ending).c_str());
  }
  folder.reset();
  return end_like(ending);
}

}  // namespace tidepool::tools
