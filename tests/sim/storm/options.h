#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

/// The command line of storm.
namespace storm {

enum class Feature : unsigned {
#define STORM_FEATURE(name, on, help) k_##name,
#include "tests/sim/storm/features.def"
#undef STORM_FEATURE
  kCount
};

struct Options {
  std::uint64_t seed = 1;
  unsigned steps = 120;
  unsigned threads = 1;
  unsigned streams = 3;  ///< of each thread, besides the default ones
  unsigned devices = 1;
  std::size_t live_bytes = std::size_t{96} << 20;    ///< as much is allocated at once, at most
  std::size_t largest_bytes = std::size_t{4} << 20;  ///< of one allocation
  std::size_t set_bytes = std::size_t{10} << 20;  ///< that one launch or copy touches, in whole allocations
  unsigned features = 0;                          ///< a bit for each Feature
  std::set<unsigned> dropped;                     ///< steps that are left out
  std::optional<unsigned> forgotten;              ///< of all waits of streams, one that is not made
  bool list = false;                              ///< print the program and run nothing

  [[nodiscard]] bool has(Feature feature) const {
    return (features >> static_cast<unsigned>(feature) & 1) != 0;
  }
  /// Whether this thread's code is compiled for default streams per thread.
  [[nodiscard]] bool is_per_thread(unsigned thread) const {
    return has(Feature::k_ptds) && (seed + thread) % 2 != 0;
  }
};

/// Exits with 2 and one line if an argument is wrong.
Options parse_options(int argc, char** argv);

/// The arguments that give these options again.
std::string arguments_of(const Options& options);

}  // namespace storm
