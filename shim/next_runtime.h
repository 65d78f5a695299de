#pragma once

#include "shim/runtime_door.h"

namespace tidepool::shim {

/// The function that a call from the module at `caller` would have reached without this library: what the
/// loader finds behind it in the global scope in the version that the module asks for, else what the module's
/// own dependencies have. Two modules of a process can have two CUDA runtimes. Code without a module
/// (compiled at run time) counts as the program's. Null: there is none.
///
/// Answers are kept for as long as the caller's module and the one found are the same files at the same
/// places. Hook-safe once kept, and takes no lock; the first time it asks the loader.
void* next_runtime(RuntimeHook hook, const void* caller) noexcept;

/// True if the hook is one of NCCL's, and the function the one that next_runtime() finds for callers that
/// link none.
bool is_only_nccl(RuntimeHook hook, const void* function) noexcept;

/// True if a search of the global scope by the code at `caller` would find the symbol without this library.
/// Asks the loader.
bool is_visible(const char* symbol, const void* caller) noexcept;

/// True if the loader searches the first one's module before the other's. Asks the loader.
bool is_before(const void* code, const void* other) noexcept;

}  // namespace tidepool::shim
