#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "allocator/support/host_memory.h"
#include "allocator/support/options.h"
#include "tools/tidepool/config_file.h"
#include "tools/tidepool/doctor.h"
#include "tools/tidepool/elf_file.h"
#include "tools/tidepool/library_path.h"
#include "tools/tidepool/path_template.h"
#include "tools/tidepool/run_folder.h"
#include "tools/tidepool/run_plan.h"

namespace tidepool::tools {
namespace {

Finding library() {
  const std::string path = library_path();
  if (access(path.c_str(), R_OK) != 0) {
    return {Verdict::kFail, "the library " + path + " cannot be read: " + std::strerror(errno),
            "install Tidepool again"};
  }
  if (path.find_first_of(": ") != path.npos) {
    return {Verdict::kFail,
            "the library " + path + " lies in a folder with a space or colon, which LD_PRELOAD cannot name",
            "move the installation"};
  }
  if (!elf_facts(path))
    return {Verdict::kFail, "the library " + path + " is none of this machine's", "install Tidepool again"};
  return {Verdict::kPass, "library " + path, ""};
}

void variables(std::vector<Finding>& findings, Options& options) {
  const auto problem = apply_config("");
  if (problem) findings.push_back({Verdict::kFail, *problem, "correct the file"});
  const auto issues = std::make_unique<OptionIssues>();
  options = load_options(environ, issues.get());
  for (const OptionIssue& issue : issues->kept()) {
    const bool is_refused = !issue.is_unknown || options.strict;
    findings.push_back({is_refused ? Verdict::kFail : Verdict::kWarn, issue.text, "see tidepool env"});
  }
  if (issues->count() == 0 && !problem) findings.push_back({Verdict::kPass, "options are valid", ""});
  if (is_off(options))
    findings.push_back({Verdict::kWarn, "Tidepool is switched off",
                        "tidepool env tells by what: TIDEPOOL_DISABLE or TIDEPOOL_MODE"});
  if (options.mode == RunMode::kObserve && !is_off(options)) {
    findings.push_back({Verdict::kWarn, "memory is only watched, nothing is managed (TIDEPOOL_MODE=observe)",
                        problem_of_watching(options).empty()
                            ? "unset TIDEPOOL_MODE to have it managed"
                            : "unset TIDEPOOL_MODE, or the device budget, which has no effect with it"});
  }
}

/// Of the folder that a run would have: made, and taken back.
Finding run_folder(const Options& options) {
  if (!options.run_dir.empty()) {
    const std::string name = options.run_dir.c_str();
    std::string problem;
    const std::string path = fill_template(name, template_values("program"), &problem);
    if (!problem.empty())
      return {Verdict::kFail, "the run folder " + name + " is not valid: " + problem, "correct it"};
    RunFolder folder(path);
    const bool is_good = !folder.path().empty();
    folder.unmake();
    if (!is_good) return {Verdict::kFail, folder.problem(), "name another with --run-dir"};
    return {Verdict::kPass, "the run folder " + path + " can be used", ""};
  }
  const RunFolder folder;
  if (folder.path().empty()) return {Verdict::kFail, folder.problem(), ""};
  return {Verdict::kPass,
          "a run's folder can be made in " + folder.path().substr(0, folder.path().rfind('/')), ""};
}

void host_memory_limits(std::vector<Finding>& findings, const Options& options) {
  const Bytes budget = host_budget_of(options, host_memory());
  const std::string amount = BytesText(budget).c_str();
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < budget.count()) {
    const std::string here = BytesText(Bytes(limit.rlim_cur)).c_str();
    findings.push_back({Verdict::kWarn,
                        "ulimit -l is " + here + ", less than the host budget of " + amount +
                            ": a driver that keeps to it refuses to pin more",
                        "ulimit -l unlimited, if a run says that host memory cannot be pinned"});
  } else {
    findings.push_back({Verdict::kPass, "host budget " + amount + " may be pinned", ""});
  }
}

void pytorch(std::vector<Finding>& findings) {
  for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view settings = text;
    const std::string what = std::string(name) + "=" + text;
    if (settings.find("expandable_segments:True") != settings.npos) {
      findings.push_back({Verdict::kWarn,
                          what + ": memory of expandable segments is passed through and stays",
                          "leave expandable_segments out"});
    } else if (settings.find("backend:native") != settings.npos) {
      findings.push_back({Verdict::kWarn,
                          what + ": PyTorch's own allocator hides tensors; only its segments can move",
                          "leave backend: out, or set --alloc native to say that it is meant"});
    } else {
      findings.push_back({Verdict::kPass, what + " can be managed", ""});
    }
  }
}

void preloads(std::vector<Finding>& findings) {
  const char* const list = std::getenv("LD_PRELOAD");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::string entry(rest.substr(0, rest.find_first_of(": ")));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry.empty()) continue;
    if (entry.find('/') != entry.npos && access(entry.c_str(), R_OK) != 0) {
      findings.push_back(
          {Verdict::kWarn, "LD_PRELOAD names " + entry + ", which cannot be read", "correct LD_PRELOAD"});
    } else {
      findings.push_back({Verdict::kPass, "LD_PRELOAD has " + entry + " as well; it stays", ""});
    }
  }
  std::ifstream file("/etc/ld.so.preload");
  std::string word;
  while (file >> word)
    findings.push_back({Verdict::kPass, "/etc/ld.so.preload puts " + word + " into every program", ""});
}

}  // namespace

std::vector<Finding> examine_machine() {
  const auto options = std::make_unique<Options>();
  std::vector<Finding> findings = {library()};
  variables(findings, *options);
  findings.push_back(run_folder(*options));
  for (Finding& finding : examine_driver()) findings.push_back(std::move(finding));
  host_memory_limits(findings, *options);
  pytorch(findings);
  preloads(findings);
  return findings;
}

}  // namespace tidepool::tools
