#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/fault_plan.h"
#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/operation.h"

namespace simgpu {

struct Driver;

/// The machine's fault plan at work in this process (docs/reference/fault-plans.md). The first time that a
/// rule has an effect one line on stderr says so. Protected by the driver's lock, and before there is a
/// driver by that of cuInit.
class Faults {
 public:
  /// Takes the rules of a text that the simgpu command has read before.
  explicit Faults(const char* text);
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// False without a plan: then nothing here need be called.
  [[nodiscard]] bool active() const { return !rules_.empty(); }

  /// Counts a call; CUDA_SUCCESS if it goes ahead. `name` and `base` are both names of the function, `size`
  /// the bytes it is about. Does not return where the plan kills the process. A device that is lost takes all
  /// its contexts with it. `d` is null where the call comes before there is a driver.
  CUresult meet_call(Driver* d, std::string_view name, std::string_view base, std::uint64_t size);

  /// Counts a copy as it is queued, and notes in it what becomes of it.
  void meet_copy(Copy* copy);

  /// What a copy's destination held before it, as far as the plan needs it.
  using Kept = std::vector<unsigned char>;
  [[nodiscard]] Kept before_copy(const Copy& copy) const;
  /// Makes the copy, which has run, what the plan says.
  void after_copy(const Copy& copy, const Kept& kept);

  /// What is left of the link's rate for this copy.
  [[nodiscard]] double link_factor(const Copy& copy, std::uint64_t now_ns) const;

 private:
  void tell(std::size_t rule, const std::string& what) const;

  tidepool::FaultPlan plan_;
  std::vector<tidepool::FaultRule> rules_;
  std::vector<Kept> previous_;      ///< for each rule of stale bytes its piece of the copy before
  mutable std::vector<bool> told_;  ///< of each rule: it has had an effect
  CUresult lost_ = CUDA_SUCCESS;
};

}  // namespace simgpu
