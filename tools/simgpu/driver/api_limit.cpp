#include <algorithm>
#include <array>

#include "tools/simgpu/driver/api.h"

/// Limits of a context: cuCtxGetLimit and cuCtxSetLimit of the page "Context Management". Kernels have bodies
/// in place of device code, so a limit is only kept and told.
namespace simgpu {
namespace {

/// The index of a limit in Context::limits, or -1: no limit of this device.
int index_of(CUlimit limit) {
  constexpr std::array<CUlimit, Context::kLimits> kKnown{
      CU_LIMIT_STACK_SIZE,
      CU_LIMIT_PRINTF_FIFO_SIZE,
      CU_LIMIT_MALLOC_HEAP_SIZE,
      CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT,
      CU_LIMIT_MAX_L2_FETCH_GRANULARITY,
      CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
  };
  const auto* const found = std::find(kKnown.begin(), kKnown.end(), limit);
  return found == kKnown.end() ? -1 : static_cast<int>(found - kKnown.begin());
}

/// The largest value that is kept; more is clamped, which the documentation leaves to the driver.
std::size_t most(CUlimit limit) {
  constexpr std::size_t kStack = std::size_t{512} << 10;
  constexpr std::size_t kFetch = 128;
  constexpr std::size_t kOther = std::size_t{1} << 30;
  if (limit == CU_LIMIT_STACK_SIZE) return kStack;
  return limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY ? kFetch : kOther;
}

}  // namespace

SIMGPU_API_CONTEXT(cuCtxGetLimit, (size_t * value, CUlimit limit), value, limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int index = index_of(limit);
  if (index < 0) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context.limits[static_cast<std::size_t>(index)];
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuCtxSetLimit, (CUlimit limit, size_t value), limit, value) {
  const int index = index_of(limit);
  if (index < 0) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  context.limits[static_cast<std::size_t>(index)] = std::min(value, most(limit));
  return CUDA_SUCCESS;
}

}  // namespace simgpu
