#include "tools/simgpu/cmd/machine_config.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "allocator/support/device_profile.h"
#include "tools/simgpu/digest/role_file.h"
#include "tools/simgpu/machine/fault_words.h"

namespace simgpu::cmd {
namespace {

DeviceConfig device_config(const tidepool::DeviceProfile& p) {
  DeviceConfig c;
  std::snprintf(c.name, sizeof c.name, "%s", p.name.c_str());
  c.compute_major = p.compute_major;
  c.compute_minor = p.compute_minor;
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  c.table##_##key = static_cast<decltype(c.table##_##key)>(p.table##_##key);
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  return c;
}

DeviceConfig device(const Options& options, std::size_t index, const std::string& folder) {
  constexpr std::uint64_t kFrame = std::uint64_t{2} << 20;
  const auto profile = tidepool::load_device_profile(options.devices[index], folder);
  if (!profile) throw UsageError("--device: " + profile.error().text);
  DeviceConfig c = device_config(*profile);
  const std::vector<std::uint64_t>& sizes = options.memory_bytes;
  if (!sizes.empty()) c.memory_bytes = sizes[std::min(index, sizes.size() - 1)];
  c.memory_bytes = c.memory_bytes / kFrame * kFrame;
  return c;
}

/// The text of a fault plan that has been read once, to refuse it before the program starts.
std::string fault_plan(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  if (!in || std::filesystem::is_directory(file, error))
    throw UsageError("--faults " + file + ": cannot be read; is it the file you meant?");
  std::string text(tidepool::kLargestFaultPlan + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  const auto rules = tidepool::parse_fault_rules(text, fault_words());
  if (!rules) throw UsageError("--faults " + file + ": " + rules.error().text);
  return text;
}

/// The path of the role file, which has been read once: a wrong one is better known before the program
/// starts.
std::string role_file(const Options& options, const std::string& data_folder) {
  const char* variable = std::getenv("SIMGPU_ROLES");
  std::string file = options.roles;
  std::string named_by = "--roles";
  if (file.empty() && variable != nullptr && *variable != '\0') {
    file = variable;
    named_by = "SIMGPU_ROLES";
  }
  if (file.empty()) return data_folder + "/simgpu/roles.txt";
  const digest::ParsedRoles parsed = digest::load_roles(file);
  if (!parsed.error.empty()) throw UsageError(named_by + ": " + parsed.error);
  return std::filesystem::absolute(file).string();
}

}  // namespace

std::unique_ptr<MachineConfig> machine_config(const Options& options, const std::string& data_folder) {
  auto c = std::make_unique<MachineConfig>();
  c->seed = options.seed;
  c->schedule = options.schedule == "inorder" ? Schedule::kInOrder : Schedule::kAdversarial;
  c->clock = options.clock == "wall" ? ClockMode::kWall : ClockMode::kVirtual;
  c->host_time = options.host_time == "measured" ? HostTime::kMeasured : HostTime::kFixed;
  c->processes_together = options.processes;
  if (!options.trace.empty()) {
    if (options.clock == "wall")
      throw UsageError("--trace shows virtual time, which --clock wall does without; leave one of them out");
    const std::string path = std::filesystem::absolute(options.trace).string();
    if (path.size() >= sizeof c->trace)
      throw UsageError("--trace: the path is longer than 1,023 bytes: " + path);
    std::copy(path.begin(), path.end(), std::begin(c->trace));
  }
  c->digest_full = options.digest == "full";
  const std::string roles = role_file(options, data_folder);
  if (roles.size() >= sizeof c->role_file)
    throw UsageError("--roles: the path is longer than 1,023 bytes: " + roles);
  roles.copy(c->role_file, roles.size());
  c->device_count = static_cast<std::uint32_t>(options.devices.size());
  for (std::size_t i = 0; i < options.devices.size(); ++i)
    c->devices[i] = device(options, i, data_folder + "/profiles");
  if (!options.faults.empty()) {
    const std::string text = fault_plan(options.faults);
    // A zero byte ends a text in the machine; the rules behind it would be lost.
    if (text.find('\0') != std::string::npos)
      throw UsageError("--faults " + options.faults + ": has a zero byte; it is no fault plan");
    std::copy(text.begin(), text.end(), std::begin(c->faults));
  }
  return c;
}

}  // namespace simgpu::cmd
