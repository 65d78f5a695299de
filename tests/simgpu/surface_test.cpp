// Looking up driver functions, and the functions that simgpu does not have. Documentation: CUDA Driver API,
// page "Driver Entry Point Access"; CUDA Programming Guide, chapter "Driver Entry Point Access".

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

constexpr int kNow = 13000;
constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

DeviceSetup bare() {
  DeviceSetup setup;
  setup.with_context = false;
  return setup;
}

void* exported(const char* symbol) {
  void* found = ::dlsym(RTLD_DEFAULT, symbol);
  EXPECT(found != nullptr);
  return found;
}

/// What the lookup of a name that exists gives.
void* found(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  OK(cuGetProcAddress(name, &function, version, flags, &status));
  EXPECT(status == CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT(function != nullptr);
  return function;
}

CUdriverProcAddressQueryResult missing(const char* name, int version, cuuint64_t flags = kLegacy) {
  void* function = &function;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(cuGetProcAddress(name, &function, version, flags, &status));
  EXPECT(function == nullptr);
  return status;
}

}  // namespace

TEST_CASE("surface: a version hands out the newest ABI that is not newer than it") {
  on_device(bare(), [] {
    EXPECT(found("cuMemAlloc", 2000) == exported("cuMemAlloc"));
    EXPECT(found("cuMemAlloc", 3010) == exported("cuMemAlloc"));
    EXPECT(found("cuMemAlloc", 3020) == exported("cuMemAlloc_v2"));
    EXPECT(found("cuMemAlloc", kNow) == exported("cuMemAlloc_v2"));
    EXPECT(found("cuCtxCreate", 2000) == exported("cuCtxCreate"));
    EXPECT(found("cuCtxCreate", 11030) == exported("cuCtxCreate_v2"));
    EXPECT(found("cuCtxCreate", 11040) == exported("cuCtxCreate_v3"));
    EXPECT(found("cuCtxCreate", 12050) == exported("cuCtxCreate_v4"));
    EXPECT(found("cuStreamGetCaptureInfo", 11030) == exported("cuStreamGetCaptureInfo_v2"));
    EXPECT(found("cuStreamGetCaptureInfo", kNow) == exported("cuStreamGetCaptureInfo_v3"));
    return 0;
  });
}

TEST_CASE("surface: a name that exists only from a later version is found but not sufficient") {
  on_device(bare(), [] {
    EXPECT(missing("cuMemAllocAsync", 11010) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(missing("cuInit", 1999) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(missing("cuInit", 0) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(missing("cuInit", -1) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(found("cuMemAllocAsync", 11020) == exported("cuMemAllocAsync"));
    return 0;
  });
}

TEST_CASE("surface: names are exact, and versions and twins are not part of them") {
  on_device(bare(), [] {
    for (const char* name : {"", " cuInit", "cuinit", "CUINIT", "cuInit ", "cuMemAlloc_v2",
                             "cuMemcpyHtoD_ptds", "cudaMalloc", "cuNoSuchFunction", "malloc"}) {
      EXPECT(missing(name, kNow) == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
      EXPECT(missing(name, kNow, kPerThread) == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    return 0;
  });
}

TEST_CASE(
    "surface: per-thread twins come on request, from 7.0 on, and the legacy function where there is none") {
  on_device(bare(), [] {
    EXPECT(found("cuMemcpyHtoD", kNow, kPerThread) == exported("cuMemcpyHtoD_v2_ptds"));
    EXPECT(found("cuMemcpyHtoD", 7000, kPerThread) == exported("cuMemcpyHtoD_v2_ptds"));
    EXPECT(found("cuMemcpyHtoD", 6050, kPerThread) == exported("cuMemcpyHtoD_v2"));
    EXPECT(found("cuMemcpyHtoD", 3010, kPerThread) == exported("cuMemcpyHtoD"));
    EXPECT(found("cuMemcpyHtoD", kNow, kLegacy) == exported("cuMemcpyHtoD_v2"));
    EXPECT(found("cuMemcpyHtoD", kNow) == exported("cuMemcpyHtoD_v2"));
    EXPECT(found("cuLaunchKernel", kNow, kPerThread) == exported("cuLaunchKernel_ptsz"));
    EXPECT(found("cuMemAlloc", kNow, kPerThread) == exported("cuMemAlloc_v2"));
    EXPECT(found("cuSignalExternalSemaphoresAsync", kNow, kPerThread) ==
           exported("cuSignalExternalSemaphoresAsync_ptsz"));
    return 0;
  });
}

TEST_CASE("surface: the lookup finds itself, in both of its ABIs") {
  on_device(bare(), [] {
    EXPECT(found("cuGetProcAddress", kNow) == exported("cuGetProcAddress_v2"));
    EXPECT(found("cuGetProcAddress", 12000) == reinterpret_cast<void*>(&cuGetProcAddress));
    EXPECT(found("cuGetProcAddress", 11030) == exported("cuGetProcAddress"));
    EXPECT(missing("cuGetProcAddress", 11020) == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    return 0;
  });
}

TEST_CASE("surface: the first ABI of the lookup says by its result that nothing was found") {
  on_device(bare(), [] {
    const auto look_up =
        reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(exported("cuGetProcAddress"));
    void* function = nullptr;
    OK(look_up("cuInit", &function, 11030, 0));
    EXPECT(function == exported("cuInit"));
    EXPECT_RESULT(look_up("cuNoSuchFunction", &function, 11030, 0), CUDA_ERROR_NOT_FOUND);
    EXPECT(function == nullptr);
    EXPECT_RESULT(look_up("cuMemAllocAsync", &function, 11010, 0), CUDA_ERROR_NOT_FOUND);
    EXPECT_RESULT(look_up(nullptr, &function, 11030, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(look_up("cuInit", nullptr, 11030, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("surface: a lookup with bad arguments is refused and writes nothing") {
  on_device(bare(), [] {
    void* function = &function;
    auto status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    EXPECT_RESULT(cuGetProcAddress(nullptr, &function, kNow, 0, &status), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuInit", nullptr, kNow, 0, &status), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuInit", &function, kNow, 4, &status), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuInit", &function, kNow + 10, 0, &status), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGetProcAddress("cuNoSuchFunction", &function, 99000, 0, &status),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT(function == &function);
    EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress("cuNoSuchFunction", &function, kNow, 0, nullptr));
    EXPECT(function == nullptr);
    return 0;
  });
}

TEST_CASE("surface: a function that simgpu does not have says so and writes nothing") {
  on_device({}, [] {
    CUarray array = reinterpret_cast<CUarray>(1);
    CUDA_ARRAY_DESCRIPTOR shape{4, 4, CU_AD_FORMAT_FLOAT, 1};
    EXPECT_RESULT(cuArrayCreate(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT(array == reinterpret_cast<CUarray>(1));
    const auto create = reinterpret_cast<decltype(&cuArrayCreate)>(found("cuArrayCreate", kNow));
    EXPECT_RESULT(create(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(create(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuCtxSynchronize());  // it is no error of the context
    return 0;
  });
}

TEST_CASE("surface: lookups and refusals from many threads at once") {
  on_device(bare(), [] {
    std::thread threads[8];
    for (std::thread& thread : threads) {
      thread = std::thread([] {
        for (int i = 0; i < 100; ++i) {
          EXPECT(found("cuMemAlloc", kNow) == exported("cuMemAlloc_v2"));
          EXPECT(missing("cuNoSuchFunction", kNow) == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
          EXPECT_RESULT(cuArrayDestroy(nullptr), CUDA_ERROR_NOT_SUPPORTED);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
}
