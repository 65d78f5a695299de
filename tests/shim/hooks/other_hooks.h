#pragma once

#include <cuda.h>

#include <string_view>

#include "tests/shim/hooks/arguments.h"

/// What is expected of hooks that neither let work through nor keep memory.
namespace tidepool::test {

/// A block that is managed, and was sent away.
struct Block {
  CUdeviceptr at;
  std::size_t size;
};

enum class Treatment {
  kPassed,   ///< the driver is called once, and its answer is the program's
  kRefused,  ///< invalid value for managed memory, without a call of the driver
  kSpecial,  ///< expect_special() has it
  kUnknown,  ///< nobody has said
};

Treatment treatment_of(std::string_view hook);
/// How many hooks have one.
std::size_t treatments();

/// Calls the hook and sees whether it does what it is there for. Ends the process if not.
void expect_special(std::string_view hook, const Objects& objects, const Block& block);

}  // namespace tidepool::test
