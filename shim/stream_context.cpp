#include "shim/stream_context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "shim/managed.h"
#include "shim/process.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

// Handles of streams that are known to be of the managed context; a place is overwritten by whichever stream
// comes next. A thread that fills a place uses the stream just then, so nobody may be destroying it.
constexpr std::size_t kPlaces = 1024;
std::array<std::atomic<std::uintptr_t>, kPlaces> g_followed;

std::atomic<std::uintptr_t>& place_of(std::uintptr_t handle) noexcept {
  return g_followed[(handle * 0x9E3779B97F4A7C15u) >> 54];
}

/// Contexts in whose streams managed memory was used.
class Others {
 public:
  void add(CUcontext context) noexcept {
    const std::lock_guard guard(lock_);
    if (std::find(known_.begin(), known_.end(), context) == known_.end()) known_.push_back(context);
    any_.store(true, std::memory_order_release);
  }
  void remove(CUcontext context) noexcept {
    const std::lock_guard guard(lock_);
    known_.erase(std::remove(known_.begin(), known_.end(), context), known_.end());
    any_.store(!known_.empty(), std::memory_order_release);
  }
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<CUcontext> all() noexcept {
    const std::lock_guard guard(lock_);
    return known_;
  }
  /// For ContextsHeld. Not needed to add one: a launch never waits behind a free.
  std::mutex held;

 private:
  std::mutex lock_;
  std::vector<CUcontext> known_;
  std::atomic<bool> any_{false};
};

/// Never destroyed: hooks run until the process has ended.
Others& others() noexcept {
  alignas(Others) static std::byte storage[sizeof(Others)];
  static Others* const only = ::new (storage) Others;
  return *only;
}

static_assert(runtime::is_capture_error(runtime::Status(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)) &&
              runtime::is_capture_error(runtime::Status(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)));

/// Is it the managed context? Another one is remembered.
bool is_managed(CUresult asked, CUcontext context) noexcept {
  if (asked != CUDA_SUCCESS || context == nullptr) return false;
  if (context == managed_context()) return true;
  others().add(context);
  return false;
}

/// Waits for all work in the context. The thread's current context stays what it is, where the driver can
/// (13.0) also if that context is in an error.
CUresult synchronize(CUcontext context) noexcept {
  const RealDriver& driver = active_driver();
  if (driver.cuCtxSynchronize_v2 != nullptr) return driver.cuCtxSynchronize_v2(context);
  CUcontext current = nullptr;
  CUresult result = driver.runtime.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return result;
  result = driver.runtime.cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return result;
  result = driver.runtime.cuCtxSynchronize();
  (void)driver.runtime.cuCtxSetCurrent(current);
  return result;
}

}  // namespace

bool is_followed(CUstream stream) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext context = nullptr;
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    const CUresult asked = driver.cuCtxGetCurrent(&context);
    return is_managed(asked, context);
  }
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  std::atomic<std::uintptr_t>& place = place_of(handle);
  if (place.load(std::memory_order_relaxed) == handle) [[likely]]
    return true;
  // Fails for a stream of a green context, which is not followed either.
  const CUresult asked = driver.cuStreamGetCtx(stream, &context);
  if (!is_managed(asked, context)) return false;
  place.store(handle, std::memory_order_relaxed);
  return true;
}

CUresult wait_for_others() noexcept {
  if (!others().any()) return CUDA_SUCCESS;
  const ContextsHeld held;
  CUresult refused = CUDA_SUCCESS;
  for (CUcontext context : others().all()) {
    const CUresult waited = synchronize(context);
    if (runtime::is_capture_error(runtime::Status(waited))) {
      refused = waited;
    } else if (waited != CUDA_SUCCESS) {
      ContextsHeld::forget(context);
    }
  }
  return refused;
}

ContextsHeld::ContextsHeld() noexcept {
  others().held.lock();
}
ContextsHeld::~ContextsHeld() {
  others().held.unlock();
}
void ContextsHeld::forget(CUcontext context) noexcept {
  others().remove(context);
}

void forget_streams() noexcept {
  for (auto& place : g_followed) place.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::shim
