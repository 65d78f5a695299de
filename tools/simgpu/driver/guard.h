#pragma once

#include <cstdint>

namespace simgpu {

/// Why guarded work did not finish.
struct Fault {
  std::uint64_t address = 0;
  bool address_known = true;  ///< a non-canonical address traps without telling which one
  bool write = false;
  const char* why = nullptr;  ///< set where a body ended itself: a string literal
  bool declared = false;      ///< found by a declared range, not by a trap
  std::uint64_t bytes = 0;    ///< length of the declared range
};

/// Runs work(argument); a touch of memory that is not there ends it and makes this return false with *fault
/// filled. Called under the device lock by the thread that executes queued work.
///
/// Installs handlers for SIGSEGV and SIGBUS in front of the program's own and checks before every run that
/// they are still in place; a fault of the program outside guarded work is handed to the handler that was
/// found. `work` may not lock, allocate, throw or own objects with destructors: it can be left at any point.
bool run_guarded(void (*work)(void*), void* argument, Fault* fault) noexcept;

/// Asked about a touch that trapped in guarded work, before the work is ended: true if it can be repeated.
/// Called from the signal handler, once for an address that traps again and again.
using Mend = bool (*)(std::uint64_t address, bool write);
void set_mend(Mend mend) noexcept;

/// Leaves the guarded work that this thread is in. Does not return.
[[noreturn]] void leave_guarded(const Fault& fault) noexcept;

}  // namespace simgpu
