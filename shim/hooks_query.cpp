// Questions about pointers: answered for every managed allocation in the same way, wherever its contents are,
// as the driver answers for cuMemAlloc memory.

#include <cstring>

#include "shim/buffer_ids.h"
#include "shim/entry.h"
#include "shim/held_blocks.h"
#include "shim/managed.h"
#include "shim/pools.h"

namespace tidepool::shim {
namespace {

template <class T>
CUresult answer(void* out, T value) noexcept {
  std::memcpy(out, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): a pointer is a value here
  return CUDA_SUCCESS;
}

/// Whoever asks for it may have the memory registered for other devices next (GPUDirect RDMA), by calls that
/// nobody sees. It stays from then on.
bool leads_to_registration(CUpointer_attribute attribute) noexcept {
  return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS || attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
         attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
         attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
}

// cuda.h, CUpointer_attribute. `ask` asks the driver, for what only it knows.
template <class Ask>
CUresult describe(const ManagedDevice& device, void* out, CUpointer_attribute attribute, CUdeviceptr at,
                  Ask&& ask) noexcept {
  runtime::Runtime& runtime = *device.runtime;
  const auto range = runtime.describe(runtime::DevicePtr(at));
  if (range.size == Bytes()) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer(out, device.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(out, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(out, at);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer(out, 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer(out, static_cast<int>(device.ordinal));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return answer(out, 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer(out, CUdeviceptr{range.base.address()});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer(out, static_cast<std::size_t>(range.size.count()));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer(out, pool_of(range.tag));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer(out, 1u);
    default:
      break;
  }
  // The driver's answer is about memory that is there.
  constexpr const char* kWhat = "cuPointerGetAttribute";
  HeldBlocks held;
  const auto scan = [at](TouchSet& set) { return set.add(at), true; };
  if (const CUresult there = held.hold(kWhat, scan); there != CUDA_SUCCESS) return there;
  const CUresult asked =
      attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ? answer(out, buffer_id(range.base.address())) : ask();
  if (asked != CUDA_SUCCESS || !leads_to_registration(attribute)) return asked;
  return static_cast<CUresult>(runtime.keep(runtime::DevicePtr(at), kWhat).code());
}

constexpr auto kAttribute = [](const auto& call, void* out, CUpointer_attribute attribute,
                               CUdeviceptr at) noexcept {
  const ManagedDevice* const device = out != nullptr ? owner_device(at) : nullptr;
  if (device == nullptr) return call(out, attribute, at);
  if (const auto lost = device->runtime->loss(); !lost.ok()) return static_cast<CUresult>(lost.code());
  return describe(*device, out, attribute, at, [&] { return call(out, attribute, at); });
};

// Unlike the single form this one does not fail for what has no answer: it leaves the driver's default. What
// could not be asked is another matter.
constexpr auto kAttributes = [](const auto& call, unsigned count, CUpointer_attribute* attributes,
                                void** outs, CUdeviceptr at) noexcept {
  const CUresult result = call(count, attributes, outs, at);
  const ManagedDevice* const device = owner_device(at);
  if (result != CUDA_SUCCESS || device == nullptr) return result;
  for (unsigned i = 0; i < count; ++i) {
    const CUresult told =
        describe(*device, outs[i], attributes[i], at, [&] { return call(1, &attributes[i], &outs[i], at); });
    const bool has_no_answer = told == CUDA_ERROR_INVALID_VALUE || told == CUDA_ERROR_NOT_SUPPORTED;
    if (told != CUDA_SUCCESS && !has_no_answer) return told;
  }
  return CUDA_SUCCESS;
};

constexpr auto kAddressRange = [](const auto& call, CUdeviceptr* base, std::size_t* size,
                                  CUdeviceptr at) noexcept {
  runtime::Runtime* runtime = owner(at);
  if (runtime == nullptr) return call(base, size, at);
  if (const auto lost = runtime->loss(); !lost.ok()) return static_cast<CUresult>(lost.code());
  const auto range = runtime->describe(runtime::DevicePtr(at));
  if (range.size == Bytes()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = range.base.address();
  if (size != nullptr) *size = range.size.count();
  return CUDA_SUCCESS;
};

}  // namespace

TP_HANDLE(cuPointerGetAttribute, kAttribute)
TP_HANDLE(cuPointerGetAttributes, kAttributes)
TP_HANDLE(cuMemGetAddressRange_v2, kAddressRange)

}  // namespace tidepool::shim
