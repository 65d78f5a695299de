#include "tools/probe/gpu.h"

#include <algorithm>
#include <array>

namespace tidepool::probe {

Gpu::Gpu(int ordinal) {
  if (const std::string why = open_driver(); !why.empty()) throw Unavailable(why);
  TP_CU(cuInit, 0U);
  int count = 0;
  TP_CU(cuDeviceGetCount, &count);
  if (ordinal >= count) {
    throw Unavailable("there is no device " + std::to_string(ordinal) + "; the driver sees " +
                      std::to_string(count));
  }
  TP_CU(cuDeviceGet, &device_, ordinal);
  std::size_t total = 0;
  TP_CU(cuDeviceTotalMem_v2, &total, device_);
  total_ = total;
  TP_CU(cuDevicePrimaryCtxRetain, &context_, device_);
  TP_CU(cuCtxSetCurrent, context_);
  kernels_ = load_kernels();
  // Not every machine lets memory be shared: containers and some drivers refuse when it is created.
  const CUmemAllocationProp wanted = properties();
  std::size_t granularity = 0;
  TP_CU(cuMemGetAllocationGranularity, &granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemGenericAllocationHandle handle = 0;
  exportable_ = cu().cuMemCreate(&handle, granularity, &wanted, 0) == CUDA_SUCCESS;
  if (exportable_) TP_CU(cuMemRelease, handle);
}

CUmemAllocationProp Gpu::properties() const noexcept {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  if (exportable_) wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return wanted;
}

int Gpu::attribute(CUdevice_attribute which) const {
  int value = 0;
  TP_CU(cuDeviceGetAttribute, &value, which, device_);
  return value;
}

Fields Gpu::facts() const {
  int version = 0;
  TP_CU(cuDriverGetVersion, &version);
  std::array<char, 256> name{};
  TP_CU(cuDeviceGetName, name.data(), static_cast<int>(name.size()), device_);
  const std::string capability = std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
                                 "." +
                                 std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  return {{"driver_version", version},
          {"device", name.data()},
          {"compute_capability", capability},
          {"multiprocessors", attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)},
          {"total_bytes", total_},
          {"exportable_handles", exportable_}};
}

std::uint64_t Gpu::allowance() const {
  constexpr std::uint64_t kMostSimulated = std::uint64_t{2} << 30;
  const std::uint64_t share = std::min(total_ / 4, free_bytes() / 4 * 3);
  return is_simulated() ? std::min(share, kMostSimulated) : share;
}

std::uint64_t Gpu::cycles(unsigned ms) const {
  const int cycles_per_ms = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);  // kHz
  return std::uint64_t{ms} * static_cast<std::uint64_t>(std::max(cycles_per_ms, 0));
}

unsigned Gpu::full_grid(CUfunction function, unsigned threads) const {
  int blocks = 0;
  TP_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function, static_cast<int>(threads), 0U);
  return static_cast<unsigned>(blocks * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  TP_CU(cuMemGetInfo_v2, &free, &total);
  return free;
}

}  // namespace tidepool::probe
