// Allocation, free, and the amounts that the program is told.

#include <algorithm>

#include "shim/arg_scan.h"
#include "shim/entry.h"
#include "shim/free_memory.h"
#include "shim/kernel_timer.h"
#include "shim/managed.h"
#include "shim/ownership.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

CUresult allocate(runtime::Runtime& runtime, CUdeviceptr* out, std::size_t size,
                  plan::MemoryApi api = plan::MemoryApi::kPlain) noexcept {
  const auto at = runtime.allocate(Bytes(size));
  if (!at.ok()) return static_cast<CUresult>(at.error().code());
  *out = at->address();
  if (recording()) [[unlikely]]
    record_allocation(runtime, *out, size, api, runtime::StreamHandle{});
  return CUDA_SUCCESS;
}

constexpr auto kAlloc = [](const auto& call, CUdeviceptr* out, std::size_t size) noexcept {
  runtime::Runtime* runtime = out != nullptr && size != 0 ? managed_here() : nullptr;
  return runtime != nullptr ? allocate(*runtime, out, size) : call(out, size);
};

// cuda.h: the pitch is at least the width and keeps rows aligned; the driver uses 512 bytes.
constexpr auto kAllocPitch = [](const auto& call, CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                std::size_t height, unsigned element) noexcept {
  constexpr Bytes kRow{512};
  const bool valid = out != nullptr && pitch != nullptr && width != 0 && height != 0 &&
                     (element == 4 || element == 8 || element == 16);
  runtime::Runtime* runtime = valid ? managed_here() : nullptr;
  if (runtime == nullptr) return call(out, pitch, width, height, element);
  const std::size_t row = Bytes(width).round_up(kRow).count();
  std::size_t size = 0;
  if (__builtin_mul_overflow(row, height, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate(*runtime, out, size, plan::MemoryApi::kPitch);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
};

constexpr auto kFree = [](const auto& call, CUdeviceptr at) noexcept {
  runtime::Runtime* runtime = owner(at);
  return runtime != nullptr ? free_now(*runtime, at) : call(at);
};

// The device that the program sees is as large as what it may hold: a program that sizes itself by the answer
// then fits, and free <= total <= physical holds.
constexpr auto kGetInfo = [](const auto& call, std::size_t* free, std::size_t* total) noexcept {
  const CUresult result = call(free, total);
  if (result != CUDA_SUCCESS) return result;
  runtime::Runtime* runtime = managed_here();
  if (runtime == nullptr) return result;
  runtime->obey();
  const Bytes capacity = runtime->capacity();
  if (total != nullptr) *total = capacity.count();
  if (free != nullptr) *free = runtime->free_bytes().count();
  return result;
};

constexpr auto kTotalMem = [](const auto& call, std::size_t* total, CUdevice device) noexcept {
  const CUresult result = call(total, device);
  if (result == CUDA_SUCCESS && total != nullptr && is_limited(device)) {
    *total = device_capacity_of(options(), Bytes(*total)).round_down(MiB(2)).count();
  }
  return result;
};

constexpr auto kReset = [](const auto& call, CUdevice device) noexcept {
  forget_streams();
  forget_layouts();
  runtime::Recorder::instance().forget_kernels();
  forget_timings();
  const CUcontext context = primary_context(device);
  runtime::Runtime* in_error = forget_managed(device);
  const CUresult result = call(device);
  if (result == CUDA_SUCCESS && context != nullptr) forget_outside_of(context);
  if (result == CUDA_SUCCESS) forget_observed(device);
  if (result == CUDA_SUCCESS && in_error != nullptr) in_error->abandon();
  return result;
};

}  // namespace

TP_HANDLE(cuMemAlloc_v2, kByOwner<kAlloc>)
TP_HANDLE(cuMemAllocPitch_v2, kByOwner<kAllocPitch>)
TP_HANDLE(cuMemFree_v2, kFreeByOwner<kFree>)
TP_HANDLE(cuMemGetInfo_v2, kGetInfo)
TP_HANDLE(cuDeviceTotalMem_v2, kTotalMem)
TP_HANDLE(cuDevicePrimaryCtxReset, kReset)
TP_HANDLE(cuDevicePrimaryCtxReset_v2, kReset)

}  // namespace tidepool::shim
