#pragma once

#include <cstddef>
#include <span>

namespace tidepool::fakes {

/// One function of the null driver, by the name of its ELF symbol.
struct NullEntry {
  const char* name;
  void* function;
};

/// The functions with a behaviour, those of shim/hooks.def and those of allocator/cuda/driver.def. A name in
/// several tables is the same function in all.
std::span<const NullEntry> null_behaviour_entries();
std::span<const NullEntry> null_hook_entries();
std::span<const NullEntry> null_driver_entries();

}  // namespace tidepool::fakes
