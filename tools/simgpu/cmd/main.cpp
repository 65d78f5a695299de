#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/cmd/machine_config.h"
#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/cmd/report.h"
#include "tools/simgpu/cmd/trace_file.h"
#include "tools/simgpu/machine/machine_file.h"

namespace {

using namespace simgpu::cmd;  // this file is the command
namespace fs = std::filesystem;

constexpr int kOwnFailure = 125;

/// The folder that holds bin/ and lib/, in the build tree and installed.
fs::path prefix() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path();
}

fs::path library_folder() {
  for (const char* place : {"lib/simgpu", SIMGPU_LIBRARY_DIR}) {
    fs::path folder = prefix() / place;
    if (fs::exists(folder / "libcuda.so.1")) return folder;
  }
  throw std::runtime_error("cannot find libcuda.so.1 below " + prefix().string() +
                           "; is simgpu installed whole?");
}

std::vector<std::pair<std::string, std::string>> variables(const simgpu::MachineFile& machine) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  std::string path = library_folder().string();
  if (before != nullptr && *before != '\0') path += std::string(":") + before;
  return {{"LD_LIBRARY_PATH", path}, {simgpu::MachineFile::kVariable, machine.path()}};
}

bool write_report(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return static_cast<bool>(out);
}

/// Files that cannot be written are better known before a long run than after it.
void begin_files(const Options& options, const simgpu::MachineConfig& config) {
  const auto refuse = [](const char* option, const std::string& file) {
    throw UsageError(std::string(option) + " " + file + ": cannot be written (" + std::strerror(errno) +
                     "); name a file in a folder that is there and may be written to");
  };
  std::error_code error;
  if (fs::exists(options.trace, error) && !fs::is_regular_file(options.trace, error))
    throw UsageError("--trace " + options.trace + ": is no ordinary file; name one, or one to be made");
  errno = 0;
  // Whichever is refused, an older report is still what it was.
  if (!options.trace.empty() && !begin_trace(options.trace, config)) refuse("--trace", options.trace);
  if (!options.report.empty() && !write_report(options.report, "")) refuse("--report", options.report);
}

/// For what fails when the command has run: what it did stays done.
void end_files(const Options& options, const simgpu::Machine& machine, const Ending& ending) {
  const auto fail = [](const char* what, const std::string& file) {
    throw std::runtime_error(std::string("the command has run, but its ") + what +
                             " could not be written to " + file + " (" + std::strerror(errno) +
                             "); make room and run it again");
  };
  errno = 0;
  if (!options.trace.empty() && !end_trace(options.trace)) fail("trace", options.trace);
  if (!options.report.empty() && !write_report(options.report, report_json(machine, ending)))
    fail("report", options.report);
}

/// True if this process was a program with the static CUDA run time. The driver has said so; if such a
/// program looks at no error, it must not pass for one that ran. What it starts itself is its own affair.
bool has_static_runtime(const simgpu::Machine& machine, pid_t pid) {
  return std::any_of(machine.processes.begin(), machine.processes.end(),
                     [&](const simgpu::ProcessSlot& slot) {
                       return slot.pid.load() == pid && slot.report.static_runtime.load() != 0;
                     });
}

/// A command that ended well, with findings in the report, ends with this code.
void judge(int exitcode, const simgpu::Machine& machine, Ending* ending) {
  if (ending->signal != 0 || ending->exit_code != 0) return;
  const std::string found = findings(machine);
  if (found.empty()) return;
  std::fprintf(
      stderr,
      "simgpu: the command ended with 0, but the report counts %s: ending with %d (--error-exitcode)\n",
      found.c_str(), exitcode);
  ending->exit_code = exitcode;
}

Ending run(const Options& options) {
  const std::unique_ptr<simgpu::MachineFile> machine =
      simgpu::MachineFile::create(*machine_config(options, (prefix() / "share/tidepool").string()));
  if (machine == nullptr)
    throw std::runtime_error(std::string("cannot make a machine: ") + std::strerror(errno));
  begin_files(options, (*machine)->config);
  Ending ending = run_command(options.command, variables(*machine));
  std::fputs((options.summary ? report_text(**machine) : digest_note(**machine)).c_str(), stderr);
  end_files(options, **machine, ending);
  if (ending.signal == 0 && ending.exit_code == 0 && has_static_runtime(**machine, ending.pid))
    ending.exit_code = kOwnFailure;
  if (options.error_exitcode != 0) judge(options.error_exitcode, **machine, &ending);
  return ending;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options({argv + 1, argv + argc});
    if (options.help) return std::fputs(help_text(), stdout) < 0 ? kOwnFailure : 0;
    if (options.version) return std::printf("simgpu %s\n", SIMGPU_VERSION) < 0 ? kOwnFailure : 0;
    const Ending ending = run(options);
    if (!ending.started) std::fprintf(stderr, "simgpu: error: %s\n", ending.why.c_str());
    end_like(ending);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "simgpu: error: %s; nothing was run\n", error.what());
    return kOwnFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simgpu: error: %s\n", error.what());
    return kOwnFailure;
  }
}
