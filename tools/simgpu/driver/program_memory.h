#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/digest/extent_map.h"

namespace simgpu {

class Scheduler;

/// The program's device memory, as digests see it: which allocations are alive, what of them was written, and
/// where pointers are.
///
/// It is known from the driver's own calls, unless another library stands in front of the driver: one that
/// defines the driver's functions and that the loader finds first. Such a library may keep the program's
/// allocations in mappings of its own and move their bytes about. Then the CUDA runtime, which lies above it,
/// says what the program allocated and which copies are the program's; until it has said so the mappings
/// count, in small pieces.
///
/// Protected by the driver's lock.
class ProgramMemory {
 public:
  explicit ProgramMemory(Scheduler& scheduler);

  /// A call of this driver allocated or mapped memory; freed or unmapped all that starts in the range.
  void allocated(std::uint64_t base, std::uint64_t bytes);
  /// The same for memory of another process, which has something in it.
  void imported(std::uint64_t base, std::uint64_t bytes);
  void freed(std::uint64_t base, std::uint64_t bytes);

  /// The runtime did, for the program.
  void runtime_allocated(std::uint64_t base, std::uint64_t bytes);
  void runtime_freed(std::uint64_t base);
  /// The calling thread's next copy between these addresses is the program's; from 0: its next memset. What
  /// was said before is forgotten, or with `too` still counts.
  static void runtime_writes(std::uint64_t to, std::uint64_t from, bool too);

  /// True if a copy between these addresses (a memset: from 0), called now by this thread, is the program's.
  [[nodiscard]] bool claims_write(std::uint64_t to, std::uint64_t from) const;

  /// True if the address lies in memory that is alive for a call or by now, the program's or any other; and
  /// where that cannot be told.
  [[nodiscard]] bool may_be_live(std::uint64_t address, std::uint64_t call) const;

  /// True if a library stands in front of this driver.
  [[nodiscard]] static bool library_in_front();

  [[nodiscard]] digest::ExtentMap& extents() {
    return behind_library_ && runtime_spoke_ ? by_runtime_ : by_driver_;
  }

 private:
  void forget_dead(digest::ExtentMap* map);

  const bool behind_library_;
  bool runtime_spoke_ = false;
  std::size_t dead_allowed_;
  Scheduler& scheduler_;  ///< numbers the calls
  digest::ExtentMap by_driver_;
  digest::ExtentMap by_runtime_;
};

}  // namespace simgpu
