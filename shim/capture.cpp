#include "shim/capture.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include "shim/ask.h"
#include "shim/managed.h"
#include "shim/process.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

struct Capture {
  CUcontext context;  // null where the driver does not tell
  CUstream stream;
  const int* thread;  // whose stream it is (its t_depth), if it is a thread's own
};

/// Captures that have begun. As many are counted in captures_under_way.
class Captures {
 public:
  void add(const Capture& capture) noexcept {
    const std::lock_guard guard(lock_);
    known_.push_back(capture);
  }

  template <class Is>
  void remove(Is&& is) noexcept {
    const std::lock_guard guard(lock_);
    const auto end = std::remove_if(known_.begin(), known_.end(), is);
    const auto gone = static_cast<int>(known_.end() - end);
    known_.erase(end, known_.end());
    runtime::end_captures(gone);
  }

 private:
  std::mutex lock_;
  std::vector<Capture> known_;
};

/// Never destroyed: hooks run until the process has ended.
Captures& captures() noexcept {
  alignas(Captures) static std::byte storage[sizeof(Captures)];
  static Captures* const only = ::new (storage) Captures;
  return *only;
}

CUstream named(CUstream stream, bool per_thread) noexcept {
  return stream == nullptr && per_thread ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace

bool ask_if_capturing(CUstream stream, bool per_thread) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream has an answer only while no other stream's capture forbids it; it is never captured.
  const auto ask = active_driver().runtime.cuStreamIsCapturing;
  if (ask(named(stream, per_thread), &status) != CUDA_SUCCESS) return false;
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Counted before the call, since other threads' launches must mark their streams before one of them joins.
void capture_begins() noexcept {
  runtime::begin_capture();
  for_each_managed([](const ManagedDevice& device) { device.runtime->capture_begins(); });
}

void capture_has_begun(bool has_begun, CUstream stream, bool per_thread) noexcept {
  if (!has_begun) return runtime::end_captures(1);
  const runtime::DriverTable& driver = active_driver().runtime;
  Capture capture{nullptr, named(stream, per_thread), nullptr};
  CUresult asked = CUDA_SUCCESS;
  if (capture.stream == CU_STREAM_PER_THREAD) {
    capture.thread = &t_depth;
    asked = driver.cuCtxGetCurrent(&capture.context);
  } else {
    asked = driver.cuStreamGetCtx(capture.stream, &capture.context);
  }
  if (asked != CUDA_SUCCESS) capture.context = nullptr;
  captures().add(capture);
}

void capture_ended(CUstream stream, bool per_thread) noexcept {
  stream = named(stream, per_thread);
  CUcontext context = nullptr;
  const bool is_threads = stream == CU_STREAM_PER_THREAD;
  if (is_threads && active_driver().runtime.cuCtxGetCurrent(&context) != CUDA_SUCCESS) context = nullptr;
  captures().remove([&](const Capture& known) {
    if (known.stream != stream) return false;
    return !is_threads || (known.thread == &t_depth && known.context == context);
  });
}

// CUDA programming guide, "Prohibited and Unhandled Operations": it is invalid to query a stream that is
// captured, and an invalid operation invalidates the graph. Beside that the call does nothing; should the
// capture have ended meanwhile, it does not wait.
CUresult spoil_capture(CUstream stream, bool per_thread, CUresult result) noexcept {
  const auto query = active_driver().cuStreamQuery;
  const auto ask = active_driver().runtime.cuStreamIsCapturing;
  if (query == nullptr || runtime::captures_under_way.load(std::memory_order_relaxed) == 0) return result;
  stream = named(stream, per_thread);
  for (int tries = 0; tries < 3; ++tries) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = ask_again([&] { return ask(stream, &status); });
    // A query of the legacy stream, which has no answer now, would end captures of other streams.
    if (asked != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) break;
    const RelaxedCapture relaxed;  // or those of other threads would end with it
    if (relaxed.ok()) (void)query(stream);
  }
  return result;
}

void forget_captures_of(CUcontext context) noexcept {
  captures().remove([context](const Capture& known) { return known.context == context; });
}

}  // namespace tidepool::shim
