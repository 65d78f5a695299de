#pragma once

#include <cuda.h>

#include "tools/probe/doors/record_file.h"

namespace tidepool::doors {

/// How a launch handed its parameters over.
enum class ParameterForm { kArray, kBuffer, kOther };

/// Notes a launch of this handle, a CUfunction or a CUkernel cast to one. At the handle's first launch,
/// before it goes to the driver, asks the driver what the parameters are, by both calls (or by those that
/// TIDEPOOL_COUNT_ASK names: both, function, none). `caller`: an address in who launches. Thread-safe.
void note_launch(CUfunction handle, ParameterForm form, const void* caller) noexcept;

/// Handles of before may be given out again: whatever has one is asked anew.
void note_unload() noexcept;

/// A line for each kernel that was launched, in the section "layouts".
void write_kernels(RecordFile& file) noexcept;

/// For a forked child, where no other thread is: as at the start.
void forget_kernels() noexcept;

}  // namespace tidepool::doors
