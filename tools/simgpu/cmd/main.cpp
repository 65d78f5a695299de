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

void write_report(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write the report to " + file);
}

/// True if this process was a program with the static CUDA run time. The driver has said so; if such a
/// program looks at no error, it must not pass for one that ran. What it starts itself is its own affair.
bool has_static_runtime(const simgpu::Machine& machine, pid_t pid) {
  return std::any_of(machine.processes.begin(), machine.processes.end(),
                     [&](const simgpu::ProcessSlot& slot) {
                       return slot.pid.load() == pid && slot.report.static_runtime.load() != 0;
                     });
}

Ending run(const Options& options) {
  const std::unique_ptr<simgpu::MachineFile> machine =
      simgpu::MachineFile::create(*machine_config(options, (prefix() / "share/tidepool").string()));
  if (machine == nullptr)
    throw std::runtime_error(std::string("cannot make a machine: ") + std::strerror(errno));
  // A report that cannot be written is better known before a long run than after it.
  if (!options.report.empty()) write_report(options.report, "");
  if (!options.trace.empty()) begin_trace(options.trace, (*machine)->config);
  Ending ending = run_command(options.command, variables(*machine));
  if (!options.trace.empty()) end_trace(options.trace);
  if (!options.report.empty()) write_report(options.report, report_json(**machine, ending));
  if (ending.signal == 0 && ending.exit_code == 0 && has_static_runtime(**machine, ending.pid))
    ending.exit_code = kOwnFailure;
  if (options.summary) std::fputs(report_text(**machine).c_str(), stderr);
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
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simgpu: error: %s\n", error.what());
    return kOwnFailure;
  }
}
