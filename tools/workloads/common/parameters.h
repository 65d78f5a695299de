#pragma once

#include <cstdint>
#include <vector>

#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"

namespace workload {

/// One array that training changes, with what the optimizer keeps for it. Averages that are no parameters in
/// the strict sense (running statistics) have no optimizer state and never a gradient.
struct Parameter {
  Floats value;
  std::vector<Floats> state;  ///< as large as value, starts as zero: momentum, or Adam's two moments
  Floats gradient;            ///< there from the backward work to the update only
};

/// All parameters of a model, in a fixed order. For one thread.
class ParameterSet {
 public:
  /// Parameters made by add() get this many arrays of state.
  ParameterSet(Memory& memory, Lanes& lanes, int states) : memory_(memory), lanes_(lanes), states_(states) {}

  /// Each returns the new parameter's number. The initial values are copied before the call returns.
  std::size_t add(const std::vector<float>& initial);
  std::size_t add_zeros(std::size_t count);
  /// Without state and gradient.
  std::size_t add_average(const std::vector<float>& initial);

  [[nodiscard]] float* value(std::size_t i) const { return all_[i].value.get(); }

  /// Makes the array for the gradient of parameter i, with undefined contents.
  float* make_gradient(std::size_t i);

  /// Those that have a gradient now, in order.
  std::vector<Parameter*> with_gradient();

  /// All values, copied to the host in order.
  [[nodiscard]] std::vector<float> read() const;

 private:
  std::size_t add(std::size_t count, const float* initial, int states);

  Memory& memory_;
  Lanes& lanes_;
  int states_;
  std::vector<Parameter> all_;
};

/// FNV-1a of bytes; `hash` continues an earlier one.
std::uint64_t digest_of(const void* bytes, std::size_t count, std::uint64_t hash = 0xcbf29ce484222325ULL);

}  // namespace workload
