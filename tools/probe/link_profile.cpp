#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "tools/probe/link_figures.h"

namespace tidepool::probe {
namespace {

namespace fs = std::filesystem;

/// "NVIDIA H100 80GB HBM3" is "nvidia-h100-80gb-hbm3".
std::string file_name_of(const std::string& device) {
  std::string name;
  for (const char c : device) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) name += c;
    if (c >= 'A' && c <= 'Z') name += static_cast<char>(c - 'A' + 'a');
    if (!plain && !(c >= 'A' && c <= 'Z') && !name.empty() && name.back() != '-') name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "device" : name;
}

/// The XDG base directory specification: $XDG_STATE_HOME if it is absolute, else ~/.local/state.
fs::path state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return state;
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    throw std::runtime_error(
        "neither XDG_STATE_HOME nor HOME names a folder for the profile; use --output FILE");
  }
  return fs::path(home) / ".local" / "state";
}

}  // namespace

std::string_view profile_remark(std::string_view table, std::string_view key) {
  if (table == "memory" && key == "bytes") return "as the driver says";
  if (key == "multiprocessors" || key == "copy_engines") return "as the driver says";
  if (key == "fp32_flops") return "not measured: lanes and clock, as the driver says";
  if (key == "tensor_flops") return "not measured";
  if (key == "host_call_ns") return "measured: recording an event";
  if (key == "host_alloc_ns_per_mib") return "measured: cuMemHostRegister of new memory";
  return "measured";
}

void expect_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    throw std::runtime_error("the profile " + path + " cannot be written: that is no file");
}

std::string write_profile(const DeviceProfile& profile, const std::string& output, bool simulated) {
  const fs::path path = output.empty()
                            ? state_folder() / "tidepool" / "profiles" /
                                  (file_name_of(profile.name) + (simulated ? ".simulated" : "") + ".toml")
                            : fs::path(output);
  std::error_code error;
  expect_file(path.string());
  if (output.empty()) fs::create_directories(path.parent_path(), error);
  // Beside its place, so that nobody reads half of it and a write that fails leaves what was there.
  const std::string beside = path.string() + "." + std::to_string(::getpid()) + ".new";
  bool written = false;
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << device_profile_text(profile, &profile_remark);
    out.flush();
    written = out.good();
  }
  const int why = errno;
  if (written) fs::rename(beside, path, error);
  if (!written || error) {
    const std::string reason = written ? error.message() : std::strerror(why);
    fs::remove(beside, error);
    throw std::runtime_error("the profile " + path.string() + " cannot be written: " + reason);
  }
  return path.string();
}

}  // namespace tidepool::probe
