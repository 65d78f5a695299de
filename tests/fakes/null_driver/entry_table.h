#pragma once

#include <cstddef>
#include <span>

// The symbol of a function that behaviour.cpp has under the driver's name. The recording driver has its own
// symbols in front of these functions.
#ifdef TP_NULL_BEHIND
#define NULL_SYMBOL(name) tp_null_##name
#else
#define NULL_SYMBOL(name) name
#endif

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
