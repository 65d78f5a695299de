#pragma once

#include <cstdint>

#include "tools/simgpu/driver/touch.h"

namespace simgpu {

/// Why guarded work did not finish.
struct Fault {
  std::uint64_t address = 0;
  bool address_known = true;  ///< a non-canonical address traps without telling which one
  bool write = false;
  const char* why = nullptr;  ///< set where a body ended itself: a string literal
  bool declared = false;      ///< found by a declared range, not by a trap
  std::uint64_t bytes = 0;    ///< length of the declared range
  /// kNoMappings or kNoMemory where the touch was legal and the system could not let it happen.
  TouchResult touch = TouchResult::kIllegal;
  int param = -1;            ///< of a launch: which parameter holds the address; -1: the nearest one
  std::uint32_t offset = 0;  ///< at which byte of it
};

/// Runs work(argument); a touch of memory that is not there ends it and makes this return false with *fault
/// filled. Called under the device lock by the thread that executes queued work.
///
/// Installs handlers for SIGSEGV and SIGBUS in front of the program's own and checks before every run that
/// they are still in place. What is no fault of the work is handed to the handler that was found: a fault of
/// other code of the program, one in a signal handler that has interrupted the work, and a signal that
/// somebody sent. A handler that blocks no signal, not even its own (SA_NODEFER), cannot be told from the
/// work. The program's handler is called from ours, which stays in place: other threads may be in work.
///
/// `work` may not lock, allocate, throw, change the signal mask or own objects with destructors: it can be
/// left at any point.
bool run_guarded(void (*work)(void*), void* argument, Fault* fault) noexcept;

/// Asked about a touch that trapped in guarded work, before the work is ended: kReady if it can be repeated.
/// Called from the signal handler, once for an address that traps again and again.
using Mend = TouchResult (*)(std::uint64_t address, bool write);
void set_mend(Mend mend) noexcept;

/// True if the address is the devices'. Called from the signal handler, on any thread, without the device
/// lock.
using Owns = bool (*)(std::uint64_t address);
/// From now on host code that traps at such an address is told so in one line on stderr, as long as simgpu's
/// handler is the one in place. The signal then goes its usual way. Called under the device lock.
void watch_host_code(Owns owns) noexcept;

/// Leaves the guarded work that this thread is in. Does not return.
[[noreturn]] void leave_guarded(const Fault& fault) noexcept;

}  // namespace simgpu
