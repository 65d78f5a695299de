#include "tools/tidepool/run_plan.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tools/tidepool/command_table.h"
#include "tools/tidepool/config_file.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/elf_file.h"
#include "tools/tidepool/library_path.h"
#include "tools/tidepool/log_writer.h"
#include "tools/tidepool/path_template.h"
#include "tools/tidepool/preload_list.h"
#include "tools/tidepool/program_check.h"
#include "tools/tidepool/shell_text.h"

namespace tidepool::tools {
namespace {

int refuse(const std::string& why) {
  say("run: %s", why.c_str());
  return kExitRefused;
}

/// Checks the variables that the job will see. False: it must not start. Of what it may start with, the
/// library warns, once the job uses CUDA.
bool accept_environment(Options& options) {
  const auto issues = std::make_unique<OptionIssues>();
  options = load_options(environ, issues.get());
  if (!issues->any_error() && !(options.strict && issues->count() > 0)) return true;
  for (const OptionIssue& issue : issues->kept()) {
    if (!issue.is_unknown || options.strict) say("run: %s. See tidepool env", issue.text);
  }
  return false;
}

/// Puts the library in front of the program, or says why that cannot be.
std::optional<ProgramCheck> prepare_preload(const std::string& program) {
  const auto refused = [&](const std::string& why) { return ProgramCheck{program, kExitRefused, why}; };
  const std::string library = library_path();
  if (access(library.c_str(), R_OK) != 0) {
    return refused("the library " + library + " cannot be read: " + std::strerror(errno) +
                   ". Install Tidepool again");
  }
  if (library.find_first_of(": ") != library.npos) {
    return refused("the library " + library +
                   " lies in a folder with a space or colon, which LD_PRELOAD cannot name");
  }
  if (!elf_facts(library))
    return refused("the library " + library + " is none of this machine's. Install Tidepool again");
  const ProgramCheck check = check_preloadable(program, library);
  if (check.exit_code != 0) return check;
  setenv("LD_PRELOAD", preload_list(getenv("LD_PRELOAD"), library).c_str(), 1);
  return std::nullopt;
}

/// Why no log can be written under this name, as far as it can be told before anything is filled in. A folder
/// that is not there is a slip of the pen, and would be made; one below %p and its like is made on purpose.
std::string log_problem(const std::string& name) {
  if (LogWriter::is_stderr(name)) return "";
  // Opened by name it would be written from its start, over what the program has written.
  if (name == "-" || name == "/dev/stdout" || name.starts_with("/dev/fd/") ||
      name.starts_with("/proc/self/fd/"))
    return "stdout and other descriptors are the program's. Name a file, or stderr";
  const std::string fixed = name.substr(0, name.find('%'));
  const std::size_t slash = fixed.rfind('/');
  const std::string folder = slash == fixed.npos ? "." : fixed.substr(0, std::max<std::size_t>(slash, 1));
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return "there is no folder " + folder;
  const auto kind = std::filesystem::status(name, ignored).type();
  using std::filesystem::file_type;
  if (kind == file_type::directory) return "it is a folder";
  if (kind == file_type::fifo || kind == file_type::socket) return "it is no file";
  return "";
}

/// What is recorded below a private folder goes with the run: it is not recorded, and said so.
void check_trace(RunPlan& plan) {
  Options& options = *plan.options;
  if (options.trace == TraceLevel::kOff || !plan.run_dir.empty()) return;
  if (!options.quiet) {
    say("warning: nothing is recorded: --trace %s needs a folder that stays. Name one with --run-dir",
        options.trace == TraceLevel::kStacks ? "stacks" : "ops");
  }
  options.trace = TraceLevel::kOff;
  setenv(find_option("TIDEPOOL_TRACE")->variable, "off", 1);
}

/// Nor is a log kept there. The usual levels are nobody's wish; what was asked for and does not come is told
/// of.
void check_log(const RunPlan& plan) {
  const std::string_view file = plan.options->log_file.c_str();
  if (!plan.run_dir.empty() || file.find("%R") == file.npos || plan.options->quiet) return;
  for (const char* const name : {"TIDEPOOL_LOG", "TIDEPOOL_LOG_FILE"}) {
    const char* const asked = getenv(name);
    if (asked == nullptr || std::string_view(asked) == "off") continue;
    say("warning: no log is kept: %s %s needs a folder that stays. Name one with --run-dir, or a file with "
        "--log-file",
        flag_of(*find_option(name)).c_str(), asked);
    return;
  }
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char* const* entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace

std::optional<std::string> apply_config(std::string_view named) {
  const ConfigFile config = read_config(named);
  if (!config.error.empty()) return config.error;
  for (const auto& [row, value] : config.values) setenv(row->variable, value.c_str(), 0);
  return std::nullopt;
}

std::string problem_of_watching(const Options& options) {
  if (options.mode != RunMode::kObserve || getenv("TIDEPOOL_DEVICE_BUDGET") == nullptr) return "";
  return "a device budget has no effect with --mode observe, which only watches. Leave out one of the two.";
}

std::string problem_of_being_off(const RunPlan& plan) {
  if (!is_off(*plan.options)) return "";
  std::string asked = getenv("TIDEPOOL_DEVICE_BUDGET") != nullptr ? "a device budget" : "";
  bool is_disabled_by_flag = false;
  for (const auto& [row, value] : plan.arguments.options) {
    const std::string_view name = row->name;
    if (name == "disable") is_disabled_by_flag = true;
    if (name == "mode" && value != "off") asked = "--mode " + value;
  }
  if (asked.empty()) return "";
  if (!plan.options->disable)
    return asked + " has no effect with --mode off, which manages nothing. Leave out one of the two.";
  if (is_disabled_by_flag) return asked + " has no effect with --disable. Leave out one of the two.";
  return asked +
         " has no effect: TIDEPOOL_DISABLE switches Tidepool off. --disable=off switches it on again.";
}

std::optional<int> prepare_run(std::span<char*> words, RunPlan& plan) {
  std::string error;
  plan.arguments = parse_run_arguments(words, &error);
  if (!error.empty()) return refuse(error);
  if (plan.arguments.flags.help) {
    std::fputs(usage_text(*find_command("run")).c_str(), stdout);
    return 0;
  }
  plan.old_environment = environment();
  const char* const inherited = getenv("TIDEPOOL_RUN_DIR");
  const std::string outer_run_dir = inherited == nullptr ? "" : inherited;
  for (const auto& [row, value] : plan.arguments.options) setenv(row->variable, value.c_str(), 1);
  if (const auto problem = apply_config(plan.arguments.flags.value_of("--config"))) return refuse(*problem);
  plan.options = std::make_unique<Options>();
  if (!accept_environment(*plan.options)) return kExitRefused;

  const ProgramCheck program = find_program(plan.arguments.command[0]);
  if (program.exit_code != 0) {
    say("run: %s", program.complaint.c_str());
    return program.exit_code;
  }
  plan.program = program.path;
  if (is_off(*plan.options)) return std::nullopt;
  if (const auto problem = prepare_preload(program.path)) {
    say("run: %s", problem->complaint.c_str());
    return problem->exit_code;
  }
  if (!plan.options->run_dir.empty()) {
    const char* const text = plan.options->run_dir.c_str();
    // Inside another run the variable names that run's folder, as it is.
    const bool is_outer = getenv(kRunIdVariable) != nullptr && outer_run_dir == text;
    plan.run_dir = is_outer ? text : fill_template(text, template_values(program.path), &error);
    if (!error.empty()) return refuse(std::string("the run folder ") + text + " is not valid: " + error);
  }
  // A mistake in the name of the logs is found before anything starts.
  TemplateValues values = template_values(program.path);
  values.run_folder = "/";
  (void)fill_template(plan.options->log_file.c_str(), values, &error);
  const std::string log = plan.options->log_file.c_str();
  if (!error.empty()) return refuse("the name of the log " + log + " is not valid: " + error);
  if (const std::string why = log.empty() ? "" : log_problem(log); !why.empty())
    return refuse("the log " + log + " cannot be written: " + why);
  check_trace(plan);
  check_log(plan);
  return std::nullopt;
}

std::string dry_run_text(const RunPlan& plan) {
  std::vector<std::string> set;
  for (const std::string& entry : environment()) {
    const auto& old = plan.old_environment;
    const bool is_new = std::find(old.begin(), old.end(), entry) == old.end();
    if (is_new && !entry.starts_with("TIDEPOOL_RUN_DIR=")) set.push_back(entry);
  }
  if (!plan.run_dir.empty()) set.push_back("TIDEPOOL_RUN_DIR=" + plan.run_dir);
  std::sort(set.begin(), set.end());
  std::string text;
  if (plan.run_dir.empty() && !is_off(*plan.options))
    text = "# TIDEPOOL_RUN_DIR will name a private folder that lasts as long as the run.\n";
  for (const std::string& entry : set) text += shell_assignment(entry) + " \\\n";
  std::string command;
  for (char* const word : plan.arguments.command) {
    if (word != nullptr) command += (command.empty() ? "" : " ") + shell_quoted(word);
  }
  return text + command + "\n";
}

}  // namespace tidepool::tools
