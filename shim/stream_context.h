#pragma once

#include <cuda.h>

namespace tidepool::shim {

/// True if work in the stream, as the calling thread names it, runs in the managed primary context: only
/// there do our marks say when it has ended. Null and the two special handles are streams of the current
/// context. Asks the driver once for other handles.
///
/// Hook-safe; only once something is managed.
bool is_followed(CUstream stream) noexcept;

/// Before a stream or a context is destroyed: handles may come back for streams of other contexts.
void forget_streams() noexcept;

}  // namespace tidepool::shim
