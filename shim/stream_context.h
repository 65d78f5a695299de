#pragma once

#include <cuda.h>

#include "allocator/streams.h"

namespace tidepool::shim {

/// True if work in the stream, as the calling thread names it, runs in the managed primary context: only
/// there do our marks say when it has ended. Null and the two special handles are streams of the current
/// context. Asks the driver once for other handles.
///
/// Only once something is managed. Hook-safe when the answer is yes; otherwise the context is remembered for
/// wait_for_others().
bool is_followed(CUstream stream) noexcept;

/// Waits for all work in contexts, other than the managed one, in whose streams managed memory was used: a
/// free waits for the managed context only. Work of green contexts is waited for with their primary context
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
