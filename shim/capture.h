#pragma once

#include <cuda.h>

#include "allocator/captures.h"
#include "shim/real_driver.h"

namespace tidepool::shim {

/// Asks the driver: does work in the stream go into a graph just now?
bool ask_if_capturing(CUstream stream, bool per_thread) noexcept;

/// Does work in the stream go into a graph just now? Such work is no use of memory yet: what it names is
/// found when the graph is instantiated (graph_scan.h). Hook-safe; one load while nothing is captured.
inline bool is_capturing(CUstream stream, bool per_thread) noexcept {
  return runtime::captures_under_way.load(std::memory_order_relaxed) > 0 &&
         ask_if_capturing(stream, per_thread);
}

/// A capture is about to begin in the stream, and is counted from here on; then whether it did. Between the
/// two the stream must not be used by others.
void capture_begins() noexcept;
void capture_has_begun(bool has_begun, CUstream stream, bool per_thread) noexcept;
/// The capture in the stream has ended, for which end_capture or the stream's destruction was called.
/// Nothing if there is none.
void capture_ended(CUstream stream, bool per_thread) noexcept;
/// Work of the program's that was to go into the graph was refused, and nothing has been asked of the driver:
/// the capture becomes invalid, as by any call that fails in it, so that the program learns at its end that
/// the graph is not what it asked for. Other captures do not notice. Nothing if the stream is not captured.
/// `result` is what the program is answered, and is returned.
CUresult spoil_capture(CUstream stream, bool per_thread, CUresult result) noexcept;

/// The context has ended, and the captures in its streams with it.
void forget_captures_of(CUcontext context) noexcept;

/// While one exists, calls of this thread that a capture forbids (cuda.h, cuThreadExchangeStreamCaptureMode:
/// they invalidate it, whichever thread's it is) are no matter of captures: neither those under way nor one
/// that begins meanwhile. Such calls must not be made where ok() is false. Hook-safe.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept {
    const auto exchange = active_driver().runtime.cuThreadExchangeStreamCaptureMode;
    ok_ = exchange != nullptr && exchange(&mode_) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (ok_) (void)active_driver().runtime.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  [[nodiscard]] bool ok() const noexcept { return ok_; }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // later the thread's own
  bool ok_;
};

}  // namespace tidepool::shim
