#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simgpu_digest/device.h"

namespace digest_test {

/// Memory that a program names: a buffer and an offset in it.
struct Part {
  std::size_t buffer = 0;
  std::size_t offset = 0;
};

/// One call of a synthetic program.
struct Step {
  enum class Kind { kAllocate, kFree, kCopyIn, kPointersIn, kCopy, kLaunch };
  Kind kind = Kind::kLaunch;
  std::string kernel;       ///< of a launch
  std::vector<Part> parts;  ///< the buffer; where to and where from; what a kernel gets, its output first
  std::vector<Part> table;  ///< what a table points to
  std::size_t bytes = 0;
  std::uint32_t number = 0;  ///< a scalar, a seed for data, how many inputs of a struct are used
};

/// A program: the same calls in every run.
struct Program {
  std::vector<Step> steps;
};

/// Makes one up: buffers that come and go, concurrent readers, tables, structs with unused slots, outputs
/// that were never written, kernels of which nothing is known.
Program make_program(std::uint64_t seed);

/// What a run leaves, with nothing in it that depends on addresses.
struct Outcome {
  std::map<std::size_t, dg::Mix> mixes;                       ///< by step
  std::map<std::size_t, std::vector<unsigned char>> buffers;  ///< what was written, pointers left out
  std::uint64_t reordered = 0;                                ///< operations that overtook another
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.mixes == b.mixes && a.buffers == b.buffers;
  }
};

/// Runs it: the seed decides where buffers lie, what memory held before, what unused slots hold, and in which
/// of the legal orders the work runs after all calls were made.
Outcome run_program(const Program& program, std::uint64_t seed, const dg::Stride& stride);

/// The role file of its kernels.
std::string program_roles();

}  // namespace digest_test
