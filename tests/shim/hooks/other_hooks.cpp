#include "tests/shim/hooks/other_hooks.h"

#include <iterator>
#include <string>

#include "tests/shim/hooks/witness.h"
#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

struct Expected {
  std::string_view hook;  // its twin as well
  Treatment treatment;
};

constexpr Expected kExpected[] = {
    {"cuInit", Treatment::kPassed},
    {"cuGetProcAddress", Treatment::kSpecial},
    {"cuGetProcAddress_v2", Treatment::kSpecial},
    {"cuMemAlloc_v2", Treatment::kSpecial},
    {"cuMemAllocPitch_v2", Treatment::kSpecial},
    {"cuMemFree_v2", Treatment::kSpecial},
    {"cuMemFreeAsync", Treatment::kSpecial},
    {"cuMemAllocAsync", Treatment::kSpecial},
    {"cuMemAllocFromPoolAsync", Treatment::kSpecial},
    {"cuMemPoolCreate", Treatment::kPassed},
    {"cuMemPoolDestroy", Treatment::kPassed},
    {"cuMemPoolGetAttribute", Treatment::kSpecial},
    {"cuMemPoolSetAttribute", Treatment::kPassed},
    {"cuMemPoolTrimTo", Treatment::kPassed},
    {"cuMemPoolSetAccess", Treatment::kPassed},
    {"cuCtxEnablePeerAccess", Treatment::kPassed},
    {"cuDeviceSetMemPool", Treatment::kPassed},
    {"cuMemSetMemPool", Treatment::kPassed},
    {"cuMemGetInfo_v2", Treatment::kSpecial},
    {"cuDeviceTotalMem_v2", Treatment::kSpecial},
    {"cuMemGetAddressRange_v2", Treatment::kSpecial},
    {"cuPointerGetAttribute", Treatment::kSpecial},
    {"cuPointerGetAttributes", Treatment::kSpecial},
    {"cuIpcGetMemHandle", Treatment::kRefused},
    {"cuGraphLaunch", Treatment::kPassed},
    {"cuGraphExecDestroy", Treatment::kPassed},
    {"cuDeviceGraphMemTrim", Treatment::kPassed},
    {"cuStreamBeginCapture", Treatment::kPassed},
    {"cuStreamBeginCapture_v2", Treatment::kPassed},
    {"cuStreamBeginCaptureToGraph", Treatment::kPassed},
    {"cuStreamEndCapture", Treatment::kPassed},
    {"cuMemAllocManaged", Treatment::kPassed},
    {"cuMemCreate", Treatment::kPassed},
    {"cuMemRelease", Treatment::kPassed},
    {"cuMemMap", Treatment::kRefused},
    {"cuMemUnmap", Treatment::kRefused},
    {"cuMemSetAccess", Treatment::kRefused},
    {"cuMemRetainAllocationHandle", Treatment::kRefused},
    {"cuStreamCreate", Treatment::kPassed},
    {"cuStreamCreateWithPriority", Treatment::kPassed},
    {"cuStreamDestroy", Treatment::kPassed},
    {"cuStreamDestroy_v2", Treatment::kPassed},
    {"cuCtxDestroy", Treatment::kPassed},
    {"cuCtxDestroy_v2", Treatment::kPassed},
    {"cuCtxDetach", Treatment::kPassed},
    {"cuCtxSynchronize", Treatment::kPassed},
    {"cuCtxSynchronize_v2", Treatment::kPassed},
    {"cuStreamSynchronize", Treatment::kPassed},
    {"cuEventSynchronize", Treatment::kPassed},
    {"cuModuleUnload", Treatment::kPassed},
    {"cuLibraryUnload", Treatment::kPassed},
    {"cuArrayDestroy", Treatment::kPassed},
    {"cuTexObjectDestroy", Treatment::kPassed},
    {"cuMipmappedArrayDestroy", Treatment::kPassed},
    {"cuDevicePrimaryCtxRelease", Treatment::kPassed},
    {"cuDevicePrimaryCtxRelease_v2", Treatment::kSpecial},
    {"cuDevicePrimaryCtxReset", Treatment::kPassed},
    {"cuDevicePrimaryCtxReset_v2", Treatment::kPassed},
};

std::string_view without_twin(std::string_view hook) {
  for (std::string_view twin : {"_ptsz", "_ptds"}) {
    if (hook.ends_with(twin)) hook.remove_suffix(twin.size());
  }
  return hook;
}

// Fails unless the address is of memory that Tidepool gives, by what it is asked about it.
void expect_managed(CUdeviceptr at, std::size_t size) {
  Witness::instance().watch("cuMemGetAddressRange_v2", 0, 0);
  CUdeviceptr base = 0;
  std::size_t told = 0;
  EXPECT(DRIVER(cuMemGetAddressRange_v2)(&base, &told, at + size - 1) == CUDA_SUCCESS);
  EXPECT(base == at && told == size && Witness::instance().calls() == 0);
}
void expect_no_memory(CUdeviceptr at) {
  CUdeviceptr base = 0;
  EXPECT(DRIVER(cuMemGetAddressRange_v2)(&base, nullptr, at) == CUDA_ERROR_NOT_FOUND);
}

constexpr std::size_t kSize = 3 * kMiB;
constexpr std::size_t kBudget = 16 * kMiB;  // CMakeLists.txt

CUmemoryPool pool() {
  CUmemoryPool pool = nullptr;
  EXPECT(DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0) == CUDA_SUCCESS && pool != nullptr);
  return pool;
}

template <class Lookup>
void expect_lookup(Lookup&& lookup) {
  void* found = nullptr;
  EXPECT(lookup("cuMemFree", &found) == CUDA_SUCCESS && is_hook(found));
  EXPECT(lookup("cuDriverGetVersion", &found) == CUDA_SUCCESS && is_drivers(found));
}

void expect_allocation(std::string_view hook, const std::string& symbol, CUstream stream) {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  std::size_t size = kSize;
  Witness::instance().watch(symbol, 0, 0);
  if (hook == "cuMemAlloc_v2") {
    EXPECT(find<decltype(cuMemAlloc_v2)>(symbol.c_str())(&at, size) == CUDA_SUCCESS);
  } else if (hook == "cuMemAllocPitch_v2") {
    const auto allocate = find<decltype(cuMemAllocPitch_v2)>(symbol.c_str());
    EXPECT(allocate(&at, &pitch, 1000, 1000, 4) == CUDA_SUCCESS && pitch == 1024);
    size = pitch * 1000;
  } else if (hook == "cuMemAllocAsync") {
    EXPECT(find<decltype(cuMemAllocAsync)>(symbol.c_str())(&at, size, stream) == CUDA_SUCCESS);
  } else {
    const auto allocate = find<decltype(cuMemAllocFromPoolAsync)>(symbol.c_str());
    EXPECT(allocate(&at, size, pool(), stream) == CUDA_SUCCESS);
  }
  EXPECT(Witness::instance().calls() == 0);
  expect_managed(at, size);
}

void expect_amount(std::string_view hook) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (hook == "cuMemGetInfo_v2") {
    EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS && total == kBudget && free == 0);
  } else {
    EXPECT(DRIVER(cuDeviceTotalMem_v2)(&total, 0) == CUDA_SUCCESS && total == kBudget);
  }
}

void expect_pool_amount(CUstream stream) {
  const auto used = [] {
    cuuint64_t bytes = 0;
    EXPECT(DRIVER(cuMemPoolGetAttribute)(pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes) == CUDA_SUCCESS);
    return bytes;
  };
  const cuuint64_t before = used();
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAllocAsync)(&at, kSize, stream) == CUDA_SUCCESS);
  EXPECT(used() == before + kSize);
}

// They answer for memory that is not there, without fetching it.
void expect_answers(std::string_view hook, const Block& block) {
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
  std::size_t size = 0;
  void* out = &size;
  if (hook == "cuPointerGetAttribute") {
    EXPECT(DRIVER(cuPointerGetAttribute)(out, which, block.at + 5) == CUDA_SUCCESS);
  } else if (hook == "cuPointerGetAttributes") {
    EXPECT(DRIVER(cuPointerGetAttributes)(1, &which, &out, block.at + 5) == CUDA_SUCCESS);
  } else {
    EXPECT(DRIVER(cuMemGetAddressRange_v2)(nullptr, &size, block.at + 5) == CUDA_SUCCESS);
  }
  EXPECT(size == block.size && !Witness::instance().is_mapped(block.at, block.size));
}

}  // namespace

Treatment treatment_of(std::string_view hook) {
  for (const Expected& row : kExpected) {
    if (row.hook == without_twin(hook)) return row.treatment;
  }
  return Treatment::kUnknown;
}

std::size_t treatments() {
  return std::size(kExpected);
}

void expect_special(std::string_view symbol, const Objects& objects, const Block& block) {
  const std::string name(symbol);
  const std::string_view hook = without_twin(symbol);
  if (hook == "cuGetProcAddress") {
    const auto lookup = find<CUresult(const char*, void**, int, cuuint64_t)>(name.c_str());
    expect_lookup([&](const char* what, void** out) { return lookup(what, out, 12000, 0); });
  } else if (hook == "cuGetProcAddress_v2") {
    const auto lookup = DRIVER(cuGetProcAddress_v2);
    expect_lookup([&](const char* what, void** out) { return lookup(what, out, 12000, 0, nullptr); });
  } else if (hook == "cuMemFree_v2") {
    EXPECT(DRIVER(cuMemFree_v2)(block.at) == CUDA_SUCCESS);
    expect_no_memory(block.at);
  } else if (hook == "cuMemFreeAsync") {
    EXPECT(find<decltype(cuMemFreeAsync)>(name.c_str())(block.at, objects.stream) == CUDA_SUCCESS);
    expect_no_memory(block.at);
  } else if (hook.starts_with("cuMemAlloc")) {
    expect_allocation(hook, name, objects.stream);
  } else if (hook == "cuDevicePrimaryCtxRelease_v2") {
    // The entry that Tidepool gives up references of its own by. This driver's context outlives all of them.
    EXPECT(DRIVER(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
    expect_managed(block.at, block.size);
  } else if (hook == "cuMemPoolGetAttribute") {
    expect_pool_amount(objects.stream);
  } else if (hook == "cuMemGetInfo_v2" || hook == "cuDeviceTotalMem_v2") {
    expect_amount(hook);
  } else {
    expect_answers(hook, block);
  }
}

}  // namespace tidepool::test
