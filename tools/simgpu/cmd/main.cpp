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

#include "allocator/support/device_profile.h"
#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/cmd/report_json.h"
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

simgpu::DeviceConfig device_config(const tidepool::DeviceProfile& p, const Options& o) {
  constexpr std::uint64_t kFrame = std::uint64_t{2} << 20;
  simgpu::DeviceConfig c;
  std::snprintf(c.name, sizeof c.name, "%s", p.name.c_str());
  c.compute_major = p.compute_major;
  c.compute_minor = p.compute_minor;
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  c.table##_##key = static_cast<decltype(c.table##_##key)>(p.table##_##key);
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  c.memory_bytes = o.memory_bytes.value_or(c.memory_bytes) / kFrame * kFrame;
  return c;
}

tidepool::DeviceProfile load_profile(const std::string& name_or_file) {
  auto profile = tidepool::load_device_profile(name_or_file, (prefix() / "share/tidepool/profiles").string());
  if (!profile) throw UsageError("--device: " + profile.error().text);
  return std::move(profile.value());
}

simgpu::MachineConfig machine_config(const Options& o) {
  simgpu::MachineConfig c;
  c.seed = o.seed;
  c.schedule = o.schedule == "inorder" ? simgpu::Schedule::kInOrder : simgpu::Schedule::kAdversarial;
  c.devices[0] = device_config(load_profile(o.device), o);
  return c;
}

void write_report(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write the report to " + file);
}

Ending run(const Options& options) {
  const std::unique_ptr<simgpu::MachineFile> machine = simgpu::MachineFile::create(machine_config(options));
  if (machine == nullptr)
    throw std::runtime_error(std::string("cannot make a machine: ") + std::strerror(errno));
  // A report that cannot be written is better known before a long run than after it.
  if (!options.report.empty()) write_report(options.report, "");
  Ending ending = run_command(options.command, variables(*machine));
  if (!options.report.empty()) write_report(options.report, report_json(**machine, ending));
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
