#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/digest/kernel_roles.h"
#include "tools/simgpu/digest/mixer.h"
#include "tools/simgpu/digest/ranges.h"
#include "tools/simgpu/digest/sample.h"

/// Digest execution: a kernel without a CPU body mixes what it reads into what it writes. The same job leaves
/// the same bytes wherever its memory lies and in whatever order streams allow; a lost or stale page changes
/// all that follows.
namespace simgpu::digest {

/// Pointers that the launch wrote into memory.
struct WrittenPointers {
  std::uint64_t address = 0;
  std::uint64_t words = 0;
};

/// What one launch did.
struct Effect {
  bool faulted = false;  ///< an illegal access ended it
  Knowledge knowledge = Knowledge::kKnown;
  Mix mix;  ///< of all that the launch depends on
  std::vector<Touched> touched;
  std::vector<WrittenPointers> pointers;  ///< addresses that it wrote; all else it wrote holds no pointers
  std::uint64_t bytes_seen = 0;           ///< looked at
  std::uint64_t bytes_written = 0;
  std::uint64_t tokens = 0;  ///< words in memory that counted as what they point to
};

/// Runs one launch now.
///
/// Its mix is made of the kernel's name, the grid, values that the role file names, each live pointer as
/// (number of its extent in this launch, offset in it), and what the stride sees of the memory that is read,
/// as far as it was ever written. Scalars, padding and words that point into no live memory do not count;
/// of those that should, Memory::refuses decides.
/// What is written is written whole, so that copies and other readers find the same bytes in every run;
/// memory that is only written does not count with its old contents. The caller notes what was written
/// (Effect::touched, Effect::pointers).
Effect run(const KernelRoles& roles, const LaunchInput& launch, const Stride& stride, Memory& memory);

/// What the launch touches, without running it.
Ranges touches(const KernelRoles& roles, const LaunchInput& launch, Memory& memory);

}  // namespace simgpu::digest
