#pragma once

#include <cstdint>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/touch.h"

namespace simgpu {

struct Context;
struct Driver;

/// A value in memory that must have come about before an operation runs: of a stream memory operation
/// (cuStreamWaitValue), or of an event that processes share.
struct Condition {
  std::uint64_t address = 0;
  std::uint64_t value = 0;
  std::uint32_t bits = 32;                      ///< 32 or 64
  unsigned compare = CU_STREAM_WAIT_VALUE_GEQ;  ///< CUstreamWaitValue_flags
  bool in_machine = false;                      ///< in the machine file, not in memory of the program
};

/// True if it is so now, and also where the address cannot be read any more: the operation then runs and says
/// what is wrong.
bool met(const Driver& driver, const Context& context, const Condition& condition);

/// The same for a value in the machine file.
bool came_about(const Condition& condition);

/// kReady if work of the context may read, or write, a value of this size here now; it can then be touched.
TouchResult value_usable(const Driver& driver, const Context& context, std::uint64_t address,
                         std::uint32_t bits, bool write);

}  // namespace simgpu
