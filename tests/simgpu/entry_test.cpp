// Start, contexts and looking up entry points. Documentation: CUDA Driver API, pages "Initialization",
// "Primary Context Management", "Context Management", "Driver Entry Point Access", "Error Handling".

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

DeviceSetup bare() {
  DeviceSetup setup;
  setup.with_context = false;
  return setup;
}

struct Answer {
  CUresult result;
  void* function;
  CUdriverProcAddressQueryResult status;
};

Answer look_up(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Answer a{CUDA_ERROR_UNKNOWN, &a, CU_GET_PROC_ADDRESS_SUCCESS};
  a.result = cuGetProcAddress(name, &a.function, version, flags, &a.status);
  return a;
}

}  // namespace

TEST_CASE("entry: before cuInit calls say so, and version and texts are there") {
  on_device(bare(), [] {
    int count = 0;
    CUdeviceptr base = 0;
    EXPECT_RESULT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_RESULT(cuMemAlloc(&base, 1), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
    int version = 0;
    OK(cuDriverGetVersion(&version));
    EXPECT(version == 13000);
    const char* text = nullptr;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(std::strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    EXPECT_RESULT(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    EXPECT(count == 1);
    return 0;
  });
}

TEST_CASE("entry: calls that need a context say when there is none") {
  on_device(bare(), [] {
    OK(cuInit(0));
    CUdeviceptr base = 0;
    CUstream stream = nullptr;
    std::size_t bytes = 0;
    EXPECT_RESULT(cuMemAlloc(&base, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RESULT(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RESULT(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = reinterpret_cast<CUcontext>(1);
    OK(cuCtxGetCurrent(&context));
    EXPECT(context == nullptr);
    return 0;
  });
}

TEST_CASE("entry: the device describes itself") {
  on_device({}, [] {
    CUdevice dev = 7;
    OK(cuDeviceGet(&dev, 0));
    EXPECT_RESULT(cuDeviceGet(&dev, 1), CUDA_ERROR_INVALID_DEVICE);
    std::size_t bytes = 0;
    OK(cuDeviceTotalMem(&bytes, dev));
    EXPECT(bytes == 64 * kMiB);
    int major = 0;
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
    EXPECT(major == 9);
    int vmm = 0;
    OK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, dev));
    EXPECT(vmm == 1);
    EXPECT_RESULT(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_MAX, dev), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev),
                  CUDA_ERROR_INVALID_VALUE);
    char name[4];
    OK(cuDeviceGetName(name, sizeof name, dev));
    EXPECT(std::strlen(name) == 3);
    CUuuid one{};
    CUuuid two{};
    OK(cuDeviceGetUuid(&one, dev));
    OK(cuDeviceGetUuid(&two, dev));
    EXPECT(std::memcmp(&one, &two, sizeof one) == 0);
    return 0;
  });
}

TEST_CASE("entry: the primary context lives while it is retained") {
  on_device(bare(), [] {
    OK(cuInit(0));
    unsigned flags = 0;
    int active = 1;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active == 0);
    EXPECT_RESULT(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext one = nullptr;
    CUcontext two = nullptr;
    OK(cuDevicePrimaryCtxRetain(&one, 0));
    OK(cuDevicePrimaryCtxRetain(&two, 0));
    EXPECT(one == two);
    OK(cuCtxSetCurrent(one));
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 1));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSynchronize());
    OK(cuDevicePrimaryCtxRelease(0));
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&one, 0));
    std::size_t free = 0;
    std::size_t total = 0;
    OK(cuMemGetInfo(&free, &total));
    EXPECT(free == total);
    return 0;
  });
}

TEST_CASE("entry: contexts form a stack per thread") {
  on_device(bare(), [] {
    OK(cuInit(0));
    CUcontext one = nullptr;
    CUcontext two = nullptr;
    CUcontext current = nullptr;
    OK(cuCtxCreate(&one, nullptr, 0, 0));
    OK(cuCtxCreate(&two, nullptr, 0, 0));
    OK(cuCtxGetCurrent(&current));
    EXPECT(current == two);
    OK(cuCtxPopCurrent(&current));
    EXPECT(current == two);
    OK(cuCtxGetCurrent(&current));
    EXPECT(current == one);
    OK(cuCtxPushCurrent(two));
    OK(cuCtxDestroy(two));
    OK(cuCtxGetCurrent(&current));
    EXPECT(current == one);
    EXPECT_RESULT(cuCtxSetCurrent(two), CUDA_ERROR_INVALID_CONTEXT);
    std::thread([] {
      CUcontext mine = reinterpret_cast<CUcontext>(1);
      OK(cuCtxGetCurrent(&mine));
      EXPECT(mine == nullptr);
      EXPECT_RESULT(cuCtxPopCurrent(&mine), CUDA_ERROR_INVALID_CONTEXT);
    }).join();
    return 0;
  });
}

TEST_CASE("entry: the version chooses the ABI") {
  on_device(bare(), [] {
    const Answer old = look_up("cuCtxCreate", 12040);
    const Answer current = look_up("cuCtxCreate", 13000);
    EXPECT(old.function != nullptr && current.function != nullptr && old.function != current.function);
    EXPECT(current.function == reinterpret_cast<void*>(&cuCtxCreate));
    EXPECT(look_up("cuMemAlloc", 13000).function == reinterpret_cast<void*>(&cuMemAlloc));
    EXPECT(look_up("cuEventElapsedTime", 12000).function != look_up("cuEventElapsedTime", 13000).function);
    return 0;
  });
}

TEST_CASE("entry: a lookup that finds nothing succeeds with a null pointer and says why") {
  on_device(bare(), [] {
    const Answer unknown = look_up("cuNoSuchFunction", 13000);
    EXPECT(unknown.result == CUDA_SUCCESS && unknown.function == nullptr);
    EXPECT(unknown.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    const Answer empty = look_up("", 13000);
    EXPECT(empty.result == CUDA_SUCCESS && empty.function == nullptr);
    EXPECT(empty.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    const Answer early = look_up("cuMemMap", 9000);
    EXPECT(early.result == CUDA_SUCCESS && early.function == nullptr);
    EXPECT(early.status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(look_up("cuMemAlloc_v2", 13000).function == nullptr);
    void* function = nullptr;
    OK(cuGetProcAddress("cuInit", &function, 13000, 0, nullptr));
    EXPECT(function == reinterpret_cast<void*>(&cuInit));
    EXPECT_RESULT(cuGetProcAddress(nullptr, &function, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuInit", nullptr, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuInit", &function, 99000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("entry: per-thread twins are handed out on request, the legacy function where there is none") {
  on_device(bare(), [] {
    constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (const char* name : {"cuLaunchKernel", "cuMemcpyHtoD", "cuMemsetD8Async", "cuEventRecord"}) {
      const Answer legacy = look_up(name, 13000);
      const Answer twin = look_up(name, 13000, kPerThread);
      EXPECT(twin.function != nullptr && twin.function != legacy.function);
      EXPECT(look_up(name, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM).function == legacy.function);
    }
    EXPECT(look_up("cuMemAlloc", 13000, kPerThread).function == look_up("cuMemAlloc", 13000).function);
    return 0;
  });
}

TEST_CASE("entry: there are no private tables") {
  on_device(bare(), [] {
    const void* table = nullptr;
    const CUuuid id{};
    EXPECT_RESULT(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
    return 0;
  });
}

TEST_CASE("entry: a child forked after cuInit cannot use the device") {
  on_device({}, [] {
    const pid_t child = ::fork();
    if (child == 0) {
      CUdeviceptr base = 0;
      ::_exit(cuMemAlloc(&base, 1) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    int status = 1;
    EXPECT(::waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
  });
}
