#pragma once

#include <cuda.h>

#include "shim/layout_table.h"
#include "shim/observe.h"
#include "shim/real_driver.h"
#include "shim/touch_set.h"

namespace tidepool::shim {

/// Adds every managed block that a word of the launch's parameters points into. Layout from the driver
/// (cuFuncGetParamInfo, cuda.h 12.4), contents at every launch: each 8-byte word counts at a place where a
/// pointer may be (step_in()), since nothing says which of them are pointers. False: the layout cannot be
/// had, so the kernel may touch anything.
///
/// Hook-safe: after a function's first launch neither locks nor allocates.
bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    TouchSet& set) noexcept;
/// The same for parameters that are given one by one, of functions that have been launched before; false also
/// for others. Inlined into the one hook that every program calls most.
[[gnu::always_inline]] inline bool scan_known(CUfunction function, void** params, TouchSet& set) noexcept {
  const detail::Layout* const layout = params != nullptr ? detail::known_layout(function) : nullptr;
  if (layout == nullptr) [[unlikely]]
    return false;
  detail::add_words(*layout, params, set);
  return true;
}
/// The same for memory that is only watched.
bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    ObservedSet& set) noexcept;

/// Before functions go (unload of a module or library, end of a context): a handle may come back for another
/// function.
void forget_layouts() noexcept;

}  // namespace tidepool::shim
