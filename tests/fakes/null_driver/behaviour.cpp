// The entries of the null driver that must answer something: one device with 80 GiB, addresses and handles
// that are never the same twice, kernels with eight pointer parameters. Nothing is checked; nothing is slow.

#include <cuda.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "tests/fakes/null_driver/entry_table.h"

// cuda.h renames some functions by macros (cuMemAlloc is cuMemAlloc_v2); these are the symbols' own names.
#define NULL_EXPORT(name) extern "C" __attribute__((visibility("default"))) CUresult NULL_SYMBOL(name)

namespace {

constexpr std::size_t kTotalMemory = std::size_t{256} << 30;  // for 100,000 blocks of 2 MiB
constexpr std::size_t kGranularity = std::size_t{2} << 20;
constexpr unsigned kPointerParameters = 8;

std::atomic<std::uint64_t> g_next_handle{0x10000};
std::atomic<std::uint64_t> g_next_address{0};

std::uint64_t new_handle() {
  return g_next_handle.fetch_add(16, std::memory_order_relaxed);
}

template <class Handle>
Handle new_object() {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(new_handle()));
}

/// Addresses that nothing else in the process has. Zero where there is no room.
std::uint64_t reserve(std::size_t size) {
  void* at =
      mmap(nullptr, size + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  return (reinterpret_cast<std::uint64_t>(at) + kGranularity - 1) / kGranularity * kGranularity;
}

/// A window of 256 GiB for plain allocations, walked through again and again.
std::uint64_t new_address(std::size_t size) {
  constexpr std::uint64_t kWindow = std::uint64_t{256} << 30;
  static const std::uint64_t start = reserve(kWindow);
  const std::uint64_t step = (size + 511) / 512 * 512;
  return start +
         g_next_address.fetch_add(step, std::memory_order_relaxed) % (kWindow - (std::uint64_t{1} << 30));
}

CUcontext context() {
  return reinterpret_cast<CUcontext>(std::uintptr_t{0x1000});
}

CUresult parameter(std::size_t index, std::size_t* offset, std::size_t* size) {
  if (index >= kPointerParameters) return CUDA_ERROR_INVALID_VALUE;
  *offset = index * sizeof(void*);
  if (size != nullptr) *size = sizeof(void*);
  return CUDA_SUCCESS;
}

}  // namespace

NULL_EXPORT(cuInit)(unsigned) {
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDriverGetVersion)(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDeviceGetCount)(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDeviceGet)(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED ? 0 : 1;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDeviceTotalMem_v2)(std::size_t* bytes, CUdevice) {
  *bytes = kTotalMemory;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDevicePrimaryCtxRetain)(CUcontext* out, CUdevice) {
  *out = context();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDevicePrimaryCtxGetState)(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuCtxGetCurrent)(CUcontext* out) {
  *out = context();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuStreamGetCtx)(CUstream, CUcontext* out) {
  return NULL_SYMBOL(cuCtxGetCurrent)(out);
}
NULL_EXPORT(cuCtxPopCurrent_v2)(CUcontext* out) {
  return NULL_SYMBOL(cuCtxGetCurrent)(out);
}
NULL_EXPORT(cuCtxGetDevice)(CUdevice* device) {
  return NULL_SYMBOL(cuDeviceGet)(device, 0);
}
NULL_EXPORT(cuMemGetInfo_v2)(std::size_t* available, std::size_t* total) {
  *available = *total = kTotalMemory;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuMemAlloc_v2)(CUdeviceptr* out, std::size_t size) {
  *out = new_address(size);
  return CUDA_SUCCESS;
}
// All memory that is asked about is the host's, and the driver knows nothing of it.
NULL_EXPORT(cuPointerGetAttribute)(void*, CUpointer_attribute, CUdeviceptr) {
  return CUDA_ERROR_INVALID_VALUE;
}
NULL_EXPORT(cuDeviceGetMemPool)(CUmemoryPool* out, CUdevice) {
  *out = reinterpret_cast<CUmemoryPool>(std::uintptr_t{0x3000});
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuDeviceGetDefaultMemPool)(CUmemoryPool* out, CUdevice device) {
  return NULL_SYMBOL(cuDeviceGetMemPool)(out, device);
}
NULL_EXPORT(cuGraphGetNodes)(CUgraph, CUgraphNode*, std::size_t* count) {
  *count = 0;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuGraphNodeGetType)(CUgraphNode, CUgraphNodeType* kind) {
  *kind = CU_GRAPH_NODE_TYPE_EMPTY;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph, unsigned long long) {
  *out = new_object<CUgraphExec>();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuMemAddressReserve)
(CUdeviceptr* out, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  *out = reserve(size);
  return *out == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
NULL_EXPORT(cuMemCreate)
(CUmemGenericAllocationHandle* out, std::size_t, const CUmemAllocationProp*, unsigned long long) {
  *out = new_handle();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuMemGetAllocationGranularity)
(std::size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *out = kGranularity;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuStreamCreate)(CUstream* out, unsigned) {
  *out = new_object<CUstream>();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuEventCreate)(CUevent* out, unsigned) {
  *out = new_object<CUevent>();
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
NULL_EXPORT(cuFuncGetParamInfo)(CUfunction, std::size_t index, std::size_t* offset, std::size_t* size) {
  return parameter(index, offset, size);
}
NULL_EXPORT(cuKernelGetParamInfo)(CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  return parameter(index, offset, size);
}

namespace tidepool::fakes {

std::span<const NullEntry> null_behaviour_entries() {
#define NULL_ROW(name) \
  { #name, reinterpret_cast < void*>(&NULL_SYMBOL(name)) }
  static const NullEntry entries[] = {
      NULL_ROW(cuInit),
      NULL_ROW(cuDriverGetVersion),
      NULL_ROW(cuDeviceGetCount),
      NULL_ROW(cuDeviceGet),
      NULL_ROW(cuDeviceGetAttribute),
      NULL_ROW(cuDeviceTotalMem_v2),
      NULL_ROW(cuDevicePrimaryCtxRetain),
      NULL_ROW(cuDevicePrimaryCtxGetState),
      NULL_ROW(cuCtxGetCurrent),
      NULL_ROW(cuStreamGetCtx),
      NULL_ROW(cuCtxPopCurrent_v2),
      NULL_ROW(cuCtxGetDevice),
      NULL_ROW(cuMemGetInfo_v2),
      NULL_ROW(cuMemAlloc_v2),
      NULL_ROW(cuPointerGetAttribute),
      NULL_ROW(cuDeviceGetMemPool),
      NULL_ROW(cuDeviceGetDefaultMemPool),
      NULL_ROW(cuGraphGetNodes),
      NULL_ROW(cuGraphNodeGetType),
      NULL_ROW(cuGraphInstantiateWithFlags),
      NULL_ROW(cuMemAddressReserve),
      NULL_ROW(cuMemCreate),
      NULL_ROW(cuMemGetAllocationGranularity),
      NULL_ROW(cuStreamCreate),
      NULL_ROW(cuEventCreate),
      NULL_ROW(cuStreamIsCapturing),
      NULL_ROW(cuFuncGetParamInfo),
      NULL_ROW(cuKernelGetParamInfo),
  };
#undef NULL_ROW
  return entries;
}

}  // namespace tidepool::fakes
