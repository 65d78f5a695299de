#pragma once

#include <cuda.h>

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
/// (cuCtxSynchronize). One load where there are none.
CUresult wait_for_others() noexcept;

/// Before a stream or a context is destroyed: handles may come back for streams of other contexts.
void forget_streams() noexcept;
/// Before a context is destroyed, which ends the work in it.
void forget_context(CUcontext context) noexcept;

}  // namespace tidepool::shim
