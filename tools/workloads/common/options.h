#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The command lines of the workloads. Plain C++: no CUDA.
namespace workload {

/// How device memory is allocated (`--alloc`).
enum class Allocator { kPlain, kAsync, kPool, kVmm };

/// The options that every workload has.
struct Options {
  int steps = 4;
  std::uint64_t seed = 1;
  Allocator allocator = Allocator::kPlain;
  int streams = 3;        ///< of each replica
  int threads = 1;        ///< replicas, each trained by a thread of its own
  int devices = 1;        ///< replica r trains on device r modulo this
  std::string save;       ///< file for the final parameters; empty: none
  bool describe = false;  ///< print what the run needs and use no GPU
};

/// An option of one program: a whole number in [low, high] that is a multiple of `step`.
struct SizeOption {
  const char* name;  ///< with its dashes
  int* value;        ///< holds the default
  int low;
  int high;
  int step;
  const char* meaning;
};

struct Program {
  const char* name;
  const char* about;  ///< one line for --help
  std::vector<SizeOption> sizes;
  bool describes;  ///< has --describe and --mode train|describe
};

/// Reads the command line into the program's sizes and `defaults`. `--help` prints what there is and ends
/// with status 0; a mistake is one line, with the option that was probably meant, and status 1. Sets the name
/// that error lines begin with.
Options parse_options(int argc, char** argv, const Program& program, Options defaults);

}  // namespace workload
