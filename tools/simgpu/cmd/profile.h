#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace simgpu::cmd {

/// A device as a profile file (TOML, tools/profiles) describes it.
struct Profile {
  std::string name;
  std::uint64_t memory_bytes = 0;
  double memory_bytes_per_second = 0;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  double link_bytes_per_second = 0;
  std::int64_t launch_ns = 0;
};

/// Reads a profile by name from the folder, or by path if the word has a '/' or ends in ".toml". Throws
/// UsageError for an unknown name (and lists the known ones) and for a file that is not a profile: a key that
/// is missing, unknown or of the wrong type.
Profile load_profile(const std::string& name_or_file, const std::filesystem::path& folder);

}  // namespace simgpu::cmd
