// Memory that is passed on: managed memory, and the program's and the libraries' own physical memory, which
// is counted.

#include <atomic>
#include <vector>

#include "allocator/support/message.h"
#include "shim/entry.h"
#include "shim/make_way.h"
#include "shim/managed.h"
#include "shim/outside_handles.h"
#include "shim/ownership.h"

namespace tidepool::shim {
namespace {

// Wherever the driver has it just then: it may be more than the device holds, so it is not counted.
constexpr auto kManagedMemory = [](const auto& call, CUdeviceptr* out, std::size_t size,
                                   unsigned flags) noexcept {
  const CUresult result = with_room([&] { return call(out, size, flags); }, Bytes(size));
  static std::atomic<bool> said{false};
  if (result == CUDA_SUCCESS && !said.exchange(true)) report<Msg::TP1015>(call.kName);
  return result;
};

constexpr auto kCreate = [](const auto& call, CUmemGenericAllocationHandle* out, std::size_t size,
                            const CUmemAllocationProp* properties, unsigned long long flags) noexcept {
  // Memory of the host (NCCL has some) takes none of the device.
  const bool is_devices = properties != nullptr && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (!is_devices) return call(out, size, properties, flags);
  const CUdevice device = properties->location.id;
  const Room room(device, Bytes(size));
  const CUresult result = with_room([&] { return call(out, size, properties, flags); }, Bytes(size));
  if (result == CUDA_SUCCESS) {
    const Module asks = who_asks(call.caller);
    const bool is_library = asks.owner == Owner::kLibrary;
    add_handle(*out, Bytes(size), device, is_library ? asks.name : "");
    static std::atomic<bool> said{false};
    if (!is_library && !observes() && !said.exchange(true)) report<Msg::TP1017>(call.kName);
  }
  return result;
};

constexpr auto kRelease = [](const auto& call, CUmemGenericAllocationHandle handle) noexcept {
  const std::uint64_t memory = memory_of_handle(handle);
  const CUresult result = call(handle);
  if (result == CUDA_SUCCESS) remove_handle(handle, memory);
  settle_outside_of_all();
  return result;
};

// Where managed memory lies the program has reserved and mapped nothing, whatever the driver thinks; without
// us it would say so.
constexpr auto kMap = [](const auto& call, CUdeviceptr at, std::size_t size, std::size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags) noexcept {
  if (owner(at) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call(at, size, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  add_mapping(at, handle);
  if (observes() && memory_of_handle(handle) != 0 && who_asks(call.caller).owner != Owner::kLibrary)
    observe_mapping(at, size);
  return result;
};

constexpr auto kUnmap = [](const auto& call, CUdeviceptr at, std::size_t size) noexcept {
  if (owner(at) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mappings_within(at, Bytes(size));
  std::vector<runtime::ObservedMemory::Entry> seen;
  if (observes()) {
    for (const OutsideMapping& one : mapped) seen.push_back(observe_unmapping(one.at));
  }
  const CUresult result = call(at, size);
  if (result == CUDA_SUCCESS) remove_mappings(mapped);
  if (result != CUDA_SUCCESS) {
    for (const auto& one : seen) observe_again(one);
  }
  settle_outside_of_all();
  return result;
};

constexpr auto kSetAccess = [](const auto& call, CUdeviceptr at, auto... rest) noexcept {
  return owner(at) != nullptr ? CUDA_ERROR_INVALID_VALUE : call(at, rest...);
};

// One more handle that holds the memory. Behind a managed block it would go on to hold what serves another
// block after the block is freed: memory of cuMemAlloc has none, and NCCL tells by that what it can register.
constexpr auto kRetain = [](const auto& call, CUmemGenericAllocationHandle* out, void* at) noexcept {
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  if (owner(address) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = call(out, at);
  if (result == CUDA_SUCCESS) retain_mapping(address, *out);
  return result;
};

}  // namespace

TP_HANDLE(cuMemAllocManaged, kManagedMemory)
TP_HANDLE(cuMemCreate, kCreate)
TP_HANDLE(cuMemRelease, kRelease)
TP_HANDLE(cuMemMap, kMap)
TP_HANDLE(cuMemUnmap, kUnmap)
TP_HANDLE(cuMemSetAccess, kSetAccess)
TP_HANDLE(cuMemRetainAllocationHandle, kRetain)

}  // namespace tidepool::shim
