// Allocation, free, and the amounts that the program is told.

#include <algorithm>

#include "shim/entry.h"
#include "shim/free_memory.h"
#include "shim/managed.h"
#include "shim/ownership.h"
#include "shim/record.h"

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
  const ManagedDevice* const device = out != nullptr && size != 0 ? managed_here(For::kMemory) : nullptr;
  return device != nullptr ? allocate(*device->runtime, out, size) : call(out, size);
};

// cuda.h: the pitch is at least the width and keeps rows aligned; the driver uses 512 bytes.
constexpr auto kAllocPitch = [](const auto& call, CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                std::size_t height, unsigned element) noexcept {
  constexpr Bytes kRow{512};
  const bool valid = out != nullptr && pitch != nullptr && width != 0 && height != 0 &&
                     (element == 4 || element == 8 || element == 16);
  const ManagedDevice* const device = valid ? managed_here(For::kMemory) : nullptr;
  if (device == nullptr) return call(out, pitch, width, height, element);
  const std::size_t row = Bytes(width).round_up(kRow).count();
  std::size_t size = 0;
  if (__builtin_mul_overflow(row, height, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate(*device->runtime, out, size, plan::MemoryApi::kPitch);
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
  const ManagedDevice* const device = managed_here();
  if (device == nullptr) {
    // In a context that will be managed once it has memory.
    if (total == nullptr || !is_limited(current_device())) return result;
    const std::size_t capacity = device_capacity_of(options(), Bytes(*total)).round_down(MiB(2)).count();
    if (free != nullptr) *free = std::min(*free, capacity);
    *total = capacity;
    return result;
  }
  device->runtime->obey();
  if (total != nullptr) *total = device->runtime->capacity().count();
  if (free != nullptr) *free = device->runtime->free_bytes().count();
  return result;
};

constexpr auto kTotalMem = [](const auto& call, std::size_t* total, CUdevice device) noexcept {
  const CUresult result = call(total, device);
  if (result != CUDA_SUCCESS || total == nullptr || !is_limited(device)) return result;
  if (const ManagedDevice* managed = managed_on(device)) {
    managed->runtime->obey();  // the budget may have changed (tidepool set)
    *total = managed->runtime->capacity().count();
  } else {
    *total = device_capacity_of(options(), Bytes(*total)).round_down(MiB(2)).count();
  }
  return result;
};

}  // namespace

TP_HANDLE(cuMemAlloc_v2, kByOwner<kAlloc>)
TP_HANDLE(cuMemAllocPitch_v2, kByOwner<kAllocPitch>)
TP_HANDLE(cuMemFree_v2, kFreeByOwner<kFree>)
TP_HANDLE(cuMemGetInfo_v2, kGetInfo)
TP_HANDLE(cuDeviceTotalMem_v2, kTotalMem)

}  // namespace tidepool::shim
