// Memory that is passed on: managed memory, and the program's and the libraries' own physical memory, which
// is counted.

#include <atomic>

#include "allocator/support/message.h"
#include "shim/entry.h"
#include "shim/outside_handles.h"
#include "shim/ownership.h"

namespace tidepool::shim {
namespace {

// Wherever the driver has it just then: it may be more than the device holds, so it is not counted.
constexpr auto kManagedMemory = [](const auto& call, CUdeviceptr* out, std::size_t size,
                                   unsigned flags) noexcept {
  const CUresult result = call(out, size, flags);
  static std::atomic<bool> said{false};
  if (result == CUDA_SUCCESS && !said.exchange(true)) report<Msg::TP1015>(call.kName);
  return result;
};

constexpr auto kCreate = [](const auto& call, CUmemGenericAllocationHandle* out, std::size_t size,
                            const CUmemAllocationProp* properties, unsigned long long flags) noexcept {
  const CUresult result = call(out, size, properties, flags);
  // Memory of the host (NCCL has some) takes none of the device.
  if (result == CUDA_SUCCESS && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    const Module asks = who_asks(call.caller);
    add_handle(*out, Bytes(size), properties->location.id, asks.owner == Owner::kLibrary ? asks.name : "");
  }
  return result;
};

constexpr auto kRelease = [](const auto& call, CUmemGenericAllocationHandle handle) noexcept {
  const std::uint64_t memory = memory_of_handle(handle);
  const CUresult result = call(handle);
  if (result == CUDA_SUCCESS) remove_handle(handle, memory);
  return result;
};

constexpr auto kMap = [](const auto& call, CUdeviceptr at, std::size_t size, std::size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags) noexcept {
  const CUresult result = call(at, size, offset, handle, flags);
  if (result == CUDA_SUCCESS) add_mapping(at, handle);
  return result;
};

constexpr auto kUnmap = [](const auto& call, CUdeviceptr at, std::size_t size) noexcept {
  const auto mapped = mappings_within(at, Bytes(size));
  const CUresult result = call(at, size);
  if (result == CUDA_SUCCESS) remove_mappings(mapped);
  return result;
};

}  // namespace

TP_HANDLE(cuMemAllocManaged, kManagedMemory)
TP_HANDLE(cuMemCreate, kCreate)
TP_HANDLE(cuMemRelease, kRelease)
TP_HANDLE(cuMemMap, kMap)
TP_HANDLE(cuMemUnmap, kUnmap)

}  // namespace tidepool::shim
