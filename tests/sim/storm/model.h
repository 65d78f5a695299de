#pragma once

#include <cstdint>
#include <vector>

#include "tests/sim/storm/program.h"

namespace storm {

/// What the program's memory must hold, computed by running its operations one after the other on plain
/// arrays. It shares no code with the kernels.
class Model {
 public:
  explicit Model(const Program& program) : program_(program), memory_(program.buffers.size()) {}

  /// Does the next operation.
  void apply(const Operation& operation);
  /// What is in these bytes now.
  [[nodiscard]] std::vector<unsigned char> bytes(const Region& region) const;

 private:
  const Program& program_;
  std::vector<std::vector<unsigned char>> memory_;
};

/// A digest of bytes that changes with every one of them.
std::uint64_t digest_of(const unsigned char* bytes, std::size_t count);

/// Fills in what every check must find.
void add_expectations(Program& program);

/// What a check should have found, byte for byte.
std::vector<unsigned char> expected_bytes(const Program& program, unsigned check);

}  // namespace storm
