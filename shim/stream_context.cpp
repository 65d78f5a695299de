#include "shim/stream_context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "shim/ask.h"
#include "shim/process.h"
#include "shim/real_driver.h"

namespace tidepool::shim {

constinit std::array<std::atomic<std::uintptr_t>, 1024> detail::g_followed{};

namespace {

using detail::g_followed;
using detail::kHandleBits;
using detail::known_of;
using detail::place_of;

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

/// The device of a managed context.
const ManagedDevice* device_in(CUresult asked, CUcontext context) noexcept {
  return asked == CUDA_SUCCESS && context != nullptr ? managed_in(context) : nullptr;
}

bool is_special(CUstream stream) noexcept {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
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

/// home_of(), which remembers the context that is told by `context` where there is no such device.
const ManagedDevice* find_home(CUstream stream, CUcontext& context) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  if (is_special(stream)) {
    const CUresult asked = ask_again([&] { return driver.cuCtxGetCurrent(&context); });
    return device_in(asked, context);
  }
  if (const std::uintptr_t known = known_of(stream); known != 0)
    return managed_in_slot(static_cast<unsigned>(known >> kHandleBits));
  // Fails for a stream of a green context, which is not followed either; what is named in one that is taken
  // for such stays until it is freed.
  const CUresult asked = ask_again([&] { return driver.cuStreamGetCtx(stream, &context); });
  const ManagedDevice* const device = device_in(asked, context);
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (device != nullptr && handle >> kHandleBits == 0) {
    const std::uintptr_t known = std::uintptr_t{device->slot} << kHandleBits | handle;
    place_of(handle).store(known, std::memory_order_relaxed);
  }
  return device;
}

}  // namespace

const ManagedDevice* home_of(CUstream stream) noexcept {
  CUcontext context = nullptr;
  const ManagedDevice* const home = find_home(stream, context);
  if (home == nullptr && context != nullptr) others().add(context);
  return home;
}

const ManagedDevice* manage_home_of(CUstream stream) noexcept {
  if (is_special(stream)) return managed_here();
  CUcontext context = nullptr;
  if (const ManagedDevice* home = find_home(stream, context)) return home;
  return context != nullptr ? manage(context) : nullptr;
}

void note_unseen_use(CUstream stream) noexcept {
  if (!any_managed()) return;
  const ManagedDevice* const home = home_of(stream);
  if (home == nullptr || only_managed() != nullptr) return;
  for_each_managed([&](const ManagedDevice& device) {
    if (&device != home) device.runtime->note_peer(home->slot);
  });
}

// While a stream is captured each launch is marked as it is, and a mark could go into the graph.
void note_awaited_value() noexcept {
  runtime::streams_await_values.store(true, std::memory_order_seq_cst);
  if (runtime::captures_under_way.load() > 0) return;
  for_each_managed([](const ManagedDevice& device) { device.runtime->stream_will_wait(); });
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
