#include "shim/stream_context.h"

#include <array>
#include <atomic>
#include <cstdint>

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

bool is_managed(CUresult asked, CUcontext context) noexcept {
  return asked == CUDA_SUCCESS && context != nullptr && context == managed_context();
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

void forget_streams() noexcept {
  for (auto& place : g_followed) place.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::shim
