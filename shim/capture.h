#pragma once

#include <cuda.h>

#include "allocator/streams.h"

namespace tidepool::shim {

/// Asks the driver: does work in the stream go into a graph just now?
bool ask_if_capturing(CUstream stream, bool per_thread) noexcept;

/// Does work in the stream go into a graph just now? Such work is no use of memory yet: what it names is
/// found when the graph is instantiated (graph_scan.h). Hook-safe; one load while nothing is captured.
inline bool is_capturing(CUstream stream, bool per_thread) noexcept {
  return runtime::captures_under_way.load(std::memory_order_relaxed) > 0 &&
         ask_if_capturing(stream, per_thread);
}

}  // namespace tidepool::shim
