#pragma once

#include <cstdint>
#include <string>

namespace simgpu {

/// In which order queued work runs.
enum class Schedule {
  kAdversarial,  ///< as late and as reordered as the rules of streams and events allow, by seed
  kInOrder,      ///< at once, in the order of the calls
};

/// The device and its run, from SIMGPU_* variables (the simgpu command sets them).
struct Config {
  std::string name = "simgpu";
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  double device_bytes_per_ns = 3350.0;  ///< HBM, read plus write
  double link_bytes_per_ns = 55.0;      ///< host link, each direction
  std::int64_t launch_ns = 3000;        ///< fixed cost of an operation on its stream
  std::uint64_t seed = 1;
  Schedule schedule = Schedule::kAdversarial;
  std::string page_path;  ///< file of the ReportPage; empty: none

  /// Reads the environment. A malformed value is named on stderr and makes this return false.
  static bool from_environment(Config* out);
};

}  // namespace simgpu
