#pragma once

#include <atomic>

#include "allocator/support/options.h"

namespace tidepool::shim {

/// How far Tidepool takes part in this process.
enum class Mode : int {
  kCold,         ///< nothing has called CUDA yet
  kActive,       ///< hooks do their work
  kPassthrough,  ///< hooks only forward: a forked child, no driver, options refused
  kDisabled,     ///< TIDEPOOL_DISABLE=1: lookups hand out the driver's own functions
};

extern std::atomic<Mode> g_mode;

/// Reads the options and obeys TIDEPOOL_DISABLE, once. The library's constructor calls it, and so does every
/// way in that can be taken earlier: constructors of the program's libraries run before those of a preloaded
/// one.
void start_process() noexcept;

/// Options of this process; once start_process() has returned.
const Options& options() noexcept;

/// What a message says of memory that is not managed.
inline constexpr char kOnlyWatched[] = "Its memory is only watched: nothing moves, and no budget holds";
inline constexpr char kRunsWithout[] = "The program runs without Tidepool";

/// True if this process will not be managed, because of its options; once start_process() has returned.
bool is_switched_off() noexcept;

/// The first hook of the process calls this: finds the driver, decides the mode. Cheap afterwards.
Mode enter_process() noexcept;

/// Depth of our own frames on this thread: calls that the driver makes while it serves us, and calls of our
/// own, go straight through. initial-exec: no allocation on first use.
extern constinit thread_local int t_depth __attribute__((tls_model("initial-exec")));

class DepthGuard {
 public:
  DepthGuard() noexcept { ++t_depth; }
  ~DepthGuard() { --t_depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
};

/// Who made the process' first call, while it is on its way: it goes through the gate twice. Null at other
/// times.
extern constinit thread_local const void* t_first_caller __attribute__((tls_model("initial-exec")));

class FirstCall {
 public:
  explicit FirstCall(const void* caller) noexcept { t_first_caller = caller; }
  ~FirstCall() { t_first_caller = nullptr; }
  FirstCall(const FirstCall&) = delete;
  FirstCall& operator=(const FirstCall&) = delete;
};

}  // namespace tidepool::shim
