#include "shim/stream_context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
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

constinit std::mutex g_lock;
std::vector<CUcontext> g_others;  // g_lock
constinit std::atomic<bool> g_any_others{false};

/// Is it the managed context? Another one is remembered.
bool is_managed(CUresult asked, CUcontext context) noexcept {
  if (asked != CUDA_SUCCESS || context == nullptr) return false;
  if (context == managed_context()) return true;
  const std::lock_guard guard(g_lock);
  if (std::find(g_others.begin(), g_others.end(), context) == g_others.end()) g_others.push_back(context);
  g_any_others.store(true, std::memory_order_release);
  return false;
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
  if (!g_any_others.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  std::vector<CUcontext> others;
  {
    const std::lock_guard guard(g_lock);
    others = g_others;
  }
  const runtime::DriverTable& driver = active_driver().runtime;
  for (CUcontext context : others) {
    if (const CUresult pushed = driver.cuCtxPushCurrent_v2(context); pushed != CUDA_SUCCESS) return pushed;
    const CUresult waited = driver.cuCtxSynchronize();
    (void)driver.cuCtxPopCurrent_v2(&context);
    if (waited != CUDA_SUCCESS) return waited;
  }
  return CUDA_SUCCESS;
}

void forget_context(CUcontext context) noexcept {
  forget_streams();
  const std::lock_guard guard(g_lock);
  g_others.erase(std::remove(g_others.begin(), g_others.end(), context), g_others.end());
  g_any_others.store(!g_others.empty(), std::memory_order_release);
}

void forget_streams() noexcept {
  for (auto& place : g_followed) place.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::shim
