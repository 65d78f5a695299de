// Questions about pointers: answered for every managed allocation in the same way, wherever its contents are,
// as the driver answers for cuMemAlloc memory.

#include <cstring>

#include "shim/buffer_ids.h"
#include "shim/entry.h"
#include "shim/managed.h"
#include "shim/pools.h"

namespace tidepool::shim {
namespace {

template <class T>
CUresult answer(void* out, T value) noexcept {
  std::memcpy(out, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): a pointer is a value here
  return CUDA_SUCCESS;
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
  // The driver's answer is about physical memory that must then stay the same.
  if (const auto status = runtime.keep(runtime::DevicePtr(at), "cuPointerGetAttribute"); !status.ok()) {
    return static_cast<CUresult>(status.code());
  }
  // Whoever asks for it may have the memory registered next.
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) return answer(out, buffer_id(range.base.address()));
  return ask();
}

constexpr auto kAttribute = [](const auto& call, void* out, CUpointer_attribute attribute,
                               CUdeviceptr at) noexcept {
  const ManagedDevice* const device = out != nullptr ? owner_device(at) : nullptr;
  if (device == nullptr) return call(out, attribute, at);
  if (const auto lost = device->runtime->device_status(); !lost.ok())
    return static_cast<CUresult>(lost.code());
  return describe(*device, out, attribute, at, [&] { return call(out, attribute, at); });
};

// Unlike the single form this one does not fail for what cannot be answered: it leaves the driver's default.
constexpr auto kAttributes = [](const auto& call, unsigned count, CUpointer_attribute* attributes,
                                void** outs, CUdeviceptr at) noexcept {
  const CUresult result = call(count, attributes, outs, at);
  const ManagedDevice* const device = owner_device(at);
  if (result != CUDA_SUCCESS || device == nullptr) return result;
  for (unsigned i = 0; i < count; ++i) {
    (void)describe(*device, outs[i], attributes[i], at,
                   [&] { return call(1, &attributes[i], &outs[i], at); });
  }
  return CUDA_SUCCESS;
};

constexpr auto kAddressRange = [](const auto& call, CUdeviceptr* base, std::size_t* size,
                                  CUdeviceptr at) noexcept {
  runtime::Runtime* runtime = owner(at);
  if (runtime == nullptr) return call(base, size, at);
  if (const auto lost = runtime->device_status(); !lost.ok()) return static_cast<CUresult>(lost.code());
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
