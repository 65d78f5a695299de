#pragma once

#include <cuda.h>

#include "shim/observe.h"
#include "shim/real_driver.h"
#include "shim/touch_set.h"

namespace tidepool::shim {

/// Adds every managed block that a word of the launch's parameters points into. Layout from the driver
/// (cuFuncGetParamInfo, cuda.h 12.4), contents at every launch: each 8-byte word at an 8-byte offset counts,
/// since nothing says which of them are pointers. False: the layout cannot be had, so the kernel may touch
/// anything.
///
/// Hook-safe: after a function's first launch neither locks nor allocates.
bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    TouchSet& set) noexcept;
/// The same for memory that is only watched.
bool scan_arguments(const RealDriver& driver, CUfunction function, void** params, void** extra,
                    ObservedSet& set) noexcept;

/// Before functions go (unload of a module or library, end of a context): a handle may come back for another
/// function.
void forget_layouts() noexcept;

}  // namespace tidepool::shim
