#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "allocator/support/options.h"
#include "allocator/support/units.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/ended_rings.h"
#include "tools/tidepool/log_writer.h"
#include "tools/tidepool/progress.h"
#include "tools/tidepool/run_folder.h"
#include "tools/tidepool/run_plan.h"
#include "tools/tidepool/run_record.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/summary.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {
namespace {

/// The folder is gone, or what lay there: no word about the program's numbers would be true.
void say_removed(const RunFolder& folder, const Ending& ending) {
  say("warning: the program ended (%s), but the run's folder %s, or what was in it, was removed meanwhile: "
      "its "
      "numbers are lost",
      ended_how(ending).c_str(), folder.path().c_str());
}

void say_summary(const RunFolder& folder, const std::string& run_id, const Ending& ending, Nanos took,
                 bool verbose, bool is_watched) {
  std::string other_version;
  const std::vector<ProcessStats> processes = read_stats_pages(folder.path(), run_id, &other_version);
  if (!other_version.empty()) {
    say("warning: the program ended (%s), but its numbers cannot be read: %s. Use tidepool and "
        "libtidepool.so of "
        "one build.",
        ended_how(ending).c_str(), other_version.c_str());
    if (processes.empty()) return;
  }
  if (processes.empty()) {
    say("warning: the program ended (%s), but no process of this run had libtidepool.so loaded, so nothing "
        "was managed. Does the program clear LD_PRELOAD or its environment?",
        ended_how(ending).c_str());
    return;
  }
  for (const std::string& line : summary_lines(processes, ending, took, verbose, is_watched))
    say("%s", line.c_str());
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
  const std::string id = std::to_string(getpid()) + "-" + std::to_string(monotonic_now().count());
  setenv(kRunIdVariable, id.c_str(), 1);
  return folder;
}

/// Whoever names a budget is told where nothing was there to be kept within it.
bool names_a_budget(const RunPlan& plan) {
  const auto& given = plan.arguments.options;
  return std::any_of(given.begin(), given.end(), [](const auto& option) {
    return std::string_view(option.first->name) == "device_budget";
  });
}

/// A log is written where it will be found: not below a folder that goes with the run.
bool wants_log(const RunPlan& plan) {
  const std::string_view name = plan.options->log_file.c_str();
  return !name.empty() &&
         (LogWriter::is_stderr(name) || !plan.run_dir.empty() || name.find("%R") == name.npos);
}

}  // namespace

int run_command(std::span<char*> words) {
  RunPlan plan;
  if (const auto code = prepare_run(words, plan)) return *code;
  if (plan.arguments.flags.has("--dry-run")) return std::fputs(dry_run_text(plan).c_str(), stdout), 0;
  const bool verbose = plan.arguments.flags.has("--verbose");
  const bool quiet = plan.options->quiet;
  const bool is_watched = plan.options->mode == RunMode::kObserve;
  for (const std::string& problem : {problem_of_watching(*plan.options), problem_of_being_off(plan)}) {
    if (!quiet && !problem.empty()) say("warning: %s", problem.c_str());
  }

  std::optional<RunFolder> folder;
  std::string run_id;
  bool has_record = false;
  if (!is_off(*plan.options)) {
    if (make_folder(plan, folder)->path().empty())
      return say("run: %s", folder->problem().c_str()), kExitRefused;
    run_id = getenv(kRunIdVariable);
    if (!plan.run_dir.empty()) has_record = write_run_record(folder->path(), run_id, {is_watched, {}, {}});
  }

  std::optional<LogWriter> log;
  if (folder && wants_log(plan))
    log.emplace(plan.options->log_file.c_str(), plan.options->log_max, folder->path(), run_id);
  const Nanos start = monotonic_now();
  std::optional<ProgressLine> progress;
  if (folder && !quiet && plan.arguments.flags.has("--progress"))
    progress.emplace(folder->path(), run_id, start);
  const bool is_drawn = progress && progress->is_shown();
  std::optional<EndedRings> ended;
  if (folder && !log) ended.emplace(folder->path(), run_id, !plan.run_dir.empty());
  Ticker ticker;
  if (folder) {
    ticker = [&, next_draw = start]() mutable {
      Nanos wait = ProgressLine::kPeriod;
      if (ended) ended->sweep();
      if (log) wait = std::min(wait, log->drain());
      const Nanos now = monotonic_now();
      if (is_drawn && now >= next_draw) {
        progress->draw();
        next_draw = now + ProgressLine::kPeriod;
      }
      return is_drawn ? std::min(wait, next_draw - now) : wait;
    };
  }
  const Ending ending = supervise(plan.program, plan.arguments.command.data(), environ, ticker);
  const Nanos took = monotonic_now() - start;
  if (progress) progress->clear();
  const bool is_removed = folder && (access(folder->path().c_str(), F_OK) != 0 ||
                                     (has_record && !has_run_record(folder->path(), run_id)));
  if (has_record && !is_removed) write_run_record(folder->path(), run_id, {is_watched, ending, took});
  if (ending.start_errno != 0) {
    say("run: %s cannot be executed: %s", plan.program.c_str(), std::strerror(ending.start_errno));
    return ending.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  if (log) log->finish(ending.pid, ending, took);
  if (log && !log->problem().empty()) say("warning: the log is not complete: %s", log->problem().c_str());
  if (is_removed && !quiet) say_removed(*folder, ending);
  if (folder && !is_removed && !quiet)
    say_summary(*folder, run_id, ending, took, verbose || names_a_budget(plan), is_watched);
  if (!folder && !quiet && verbose) {
    say("done (%s). Tidepool is switched off (--mode off or --disable, or their variables): nothing was "
        "managed.",
        ended_how(ending).c_str());
  }
  folder.reset();
  return end_like(ending);
}

}  // namespace tidepool::tools
