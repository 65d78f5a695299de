#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/streams.h"
#include "shim/managed.h"

namespace tidepool::shim {

/// The device in whose managed context work in the stream, as the calling thread names it, runs, if it is a
/// managed one: only there do our marks say when work has ended. Null otherwise. Null and the two special
/// handles are streams of the current context. Asks the driver once for other handles.
///
/// Only once something is managed. Hook-safe when there is one; otherwise the context is remembered for
/// wait_for_others().
const ManagedDevice* home_of(CUstream stream) noexcept;

namespace detail {
// Handles of streams that are known to be of a managed context, with its slot above; a place is overwritten
// by whichever stream comes next. A thread that fills a place uses the stream just then, so nobody may be
// destroying it. No place has one of the special handles.
inline constexpr unsigned kHandleBits = 48;  // handles are addresses
extern std::array<std::atomic<std::uintptr_t>, 1024> g_followed;

inline std::atomic<std::uintptr_t>& place_of(std::uintptr_t handle) noexcept {
  return g_followed[(handle * 0x9E3779B97F4A7C15u) >> 54];
}
/// What a place has of the stream; 0: nothing.
inline std::uintptr_t known_of(CUstream stream) noexcept {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const std::uintptr_t known = place_of(handle).load(std::memory_order_relaxed);
  return (known ^ handle) << (64 - kHandleBits) == 0 ? known : 0;
}
}  // namespace detail

/// True if there is one.
inline bool is_followed(CUstream stream) noexcept {
  return detail::known_of(stream) != 0 || home_of(stream) != nullptr;
}

/// The device of the stream, which is managed from here on if it can be (managed.h, manage()). Null: memory
/// for work in that stream is the driver's.
const ManagedDevice* manage_home_of(CUstream stream) noexcept;

/// Memory of any device may be used by work in the stream that we cannot see, though it stays where it is:
/// its free waits for the stream's device as well.
void note_unseen_use(CUstream stream) noexcept;

/// Before a stream is told to wait for a value in memory: so that no copy out is made to come after what
/// waits.
void note_awaited_value() noexcept;

/// Waits for all work in contexts, other than the managed ones, in whose streams managed memory was used: a
/// free waits for managed contexts only. Work of green contexts is waited for with their primary context
/// (cuCtxSynchronize). Contexts that are gone or broken have no work left and are forgotten. Fails only where
/// one may not be waited for because it captures a graph. One load where there are none.
CUresult wait_for_others() noexcept;

/// A stream is made, or used, that the legacy stream waits for. Hook-safe, one load.
inline void note_blocking_stream() noexcept {
  if (!runtime::blocking_streams_exist.load(std::memory_order_relaxed)) {
    runtime::blocking_streams_exist.store(true, std::memory_order_seq_cst);
  }
}

/// Before a stream is destroyed: handles may come back for streams of other contexts.
void forget_streams() noexcept;

/// While one exists, nobody else waits in another context or ends one by end_context().
class ContextsHeld {
 public:
  ContextsHeld() noexcept;
  ~ContextsHeld();
  ContextsHeld(const ContextsHeld&) = delete;
  ContextsHeld& operator=(const ContextsHeld&) = delete;
  /// The context, and the work in it, has ended.
  static void forget(CUcontext context) noexcept;
};

/// Runs `destroy()`, the driver's way to end the context, and forgets the context if that succeeded.
template <class Destroy>
CUresult end_context(CUcontext context, Destroy&& destroy) noexcept {
  forget_streams();
  const ContextsHeld held;
  const CUresult result = destroy();
  if (result == CUDA_SUCCESS) ContextsHeld::forget(context);
  return result;
}

}  // namespace tidepool::shim
