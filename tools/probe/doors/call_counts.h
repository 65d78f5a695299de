#pragma once

#include <cuda.h>

#include "shim/hook_table.h"
#include "tools/probe/doors/record_file.h"

namespace tidepool::doors {

/// One more call of this entry. Thread-safe, lock-free.
void count_call(shim::Hook hook, CUresult result) noexcept;

/// One more call of an entry that hooks.def has in other versions only (shim/unknown_entry.h). Thread-safe.
void count_guarded_call(const char* symbol) noexcept;

/// A line for each entry that was called.
void write_calls(RecordFile& file) noexcept;

/// For a forked child, where no other thread is: as at the start.
void forget_calls() noexcept;

}  // namespace tidepool::doors
