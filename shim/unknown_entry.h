#pragma once

namespace tidepool::shim {

/// A guarded stand-in for a driver entry whose name we hook but whose version we do not know. It keeps all
/// arguments as they are; before a call goes on, handle_unknown() sees to it. Programs ask for many entries
/// that they never call, so asking alone changes nothing.
///
/// When all stand-ins are taken (one message): a function that answers CUDA_ERROR_NOT_SUPPORTED. `symbol` is
/// copied.
void* guard_unknown(const char* symbol, void* function) noexcept;

/// Around a fork: no other thread is just then taking a stand-in.
void lock_unknown_for_fork() noexcept;
void unlock_unknown_after_fork() noexcept;

/// The handler of such calls; each library that is built from the door has its own. libtidepool.so guards the
/// calls of an active process only: a forked child's go straight through. False: the call may not go on, and
/// answers CUDA_ERROR_OUT_OF_MEMORY.
bool handle_unknown(const char* symbol) noexcept;

}  // namespace tidepool::shim
