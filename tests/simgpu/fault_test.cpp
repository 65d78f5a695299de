// Illegal addresses. Documentation: CUDA Driver API, CUDA_ERROR_ILLEGAL_ADDRESS ("leaves the process in an
// inconsistent state and any further CUDA work will return the same error"); cuMemUnmap does not wait for
// work.

#include <catch2/catch.hpp>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <thread>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

struct WriteOne {
  template <class C>
  static void run(C& c, int* to, int value) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *to = value;
    });
  }
};

struct DeclareAndWrite {
  template <class C>
  static void run(C& c, int* to, std::uint64_t bytes) {
    c.writes(to, bytes);
    c.phase([&](unsigned tid) {
      if (tid == 0) *to = 1;
    });
  }
};

void launch(CUfunction function, CUstream stream, void** params) {
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
}

struct Vmm {
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  Vmm() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemAddressReserve(&base, kFrame, 0, 0, 0));
    OK(cuMemCreate(&handle, kFrame, &prop, 0));
    map();
  }
  void map() const {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemMap(base, kFrame, 0, handle, 0));
    OK(cuMemSetAccess(base, kFrame, &access, 1));
  }
};

constexpr std::uint64_t kSeeds = 60;

}  // namespace

TEST_CASE("fault: unmapping under a queued kernel is an illegal access for some seeds") {
  const int caught = count_over_seeds(kSeeds, [] {
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    const Vmm memory;
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr to = memory.base;
    int value = 3;
    void* params[] = {&to, &value};
    launch(function, stream, params);
    OK(cuMemUnmap(memory.base, kFrame));
    return cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
  });
  REQUIRE(caught > 0);
  REQUIRE(caught < static_cast<int>(kSeeds));
}

TEST_CASE("fault: unmapping under a queued copy is an illegal access for some seeds") {
  const int caught = count_over_seeds(kSeeds, [] {
    const Vmm memory;
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, kFrame, 0));
    OK(cuMemcpyDtoHAsync(pinned, memory.base, kFrame, stream));
    OK(cuMemUnmap(memory.base, kFrame));
    return cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
  });
  REQUIRE(caught > 0);
}

TEST_CASE("fault: unmapping after waiting is fine for every seed") {
  const int caught = count_over_seeds(kSeeds, [] {
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    const Vmm memory;
    CUdeviceptr to = memory.base;
    int value = 3;
    void* params[] = {&to, &value};
    launch(function, nullptr, params);
    OK(cuStreamSynchronize(nullptr));
    OK(cuMemUnmap(memory.base, kFrame));
    memory.map();
    int back = 0;
    OK(cuMemcpyDtoH(&back, memory.base, sizeof back));
    return back == 3 ? 0 : 1;
  });
  REQUIRE(caught == 0);
}

TEST_CASE("fault: the error stays for every call of the process on that device, also in a new context") {
  on_device({}, [] {
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr good = 0;
    OK(cuMemAlloc(&good, 4096));
    CUdeviceptr to = good + 64 * kFrame;
    int value = 1;
    void* params[] = {&to, &value};
    launch(function, nullptr, params);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuMemFree(good), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuMemAlloc(&good, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuMemcpyDtoH(&value, good, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuStreamQuery(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    const char* text = nullptr;
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    CUcontext context = nullptr;
    OK(cuDevicePrimaryCtxReset(0));
    EXPECT_RESULT(cuMemAlloc(&good, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxSetCurrent(nullptr));
    OK(cuDevicePrimaryCtxRelease(0));
    EXPECT_RESULT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuCtxCreate(&context, nullptr, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("fault: work of other contexts of the device is dropped, that of other devices goes on") {
  DeviceSetup setup;
  setup.devices = 2;
  on_device(setup, [] {
    CUcontext first = nullptr;
    CUcontext beside = nullptr;
    CUcontext other = nullptr;
    OK(cuCtxGetCurrent(&first));
    OK(cuCtxCreate(&beside, nullptr, 0, 0));
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 4096));
    OK(cuCtxCreate(&other, nullptr, 0, 1));
    CUdeviceptr there = 0;
    OK(cuMemAlloc(&there, 4096));
    OK(cuCtxSetCurrent(first));
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr nowhere = there + 512 * kFrame;
    int value = 1;
    void* params[] = {&nowhere, &value};
    launch(function, nullptr, params);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxSetCurrent(beside));
    EXPECT_RESULT(cuMemsetD8(memory, 1, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxSetCurrent(other));
    OK(cuMemsetD8(there, 1, 64));
    OK(cuCtxSynchronize());
    return 0;
  });
}

TEST_CASE("fault: host functions behind an error are not called") {
  const int called = count_over_seeds(20, [] {
    static int calls = 0;
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr nowhere = 0x7e80'0000'0000;
    int value = 1;
    void* params[] = {&nowhere, &value};
    launch(function, stream, params);
    const CUresult queued = cuLaunchHostFunc(
        stream, [](void*) { ++calls; }, nullptr);
    EXPECT(queued == CUDA_SUCCESS || queued == CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_RESULT(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    return calls;
  });
  REQUIRE(called == 0);
}

TEST_CASE("fault: a kernel in a freed large allocation traps") {
  on_device({}, [] {
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 4 * kMiB));
    OK(cuMemFree(block));
    int value = 1;
    void* params[] = {&block, &value};
    launch(function, nullptr, params);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("fault: declared ranges catch host pointers, ends past an allocation and freed small blocks") {
  const auto result_of = [](const std::function<void(CUdeviceptr, CUdeviceptr*, std::uint64_t*)>& choose) {
    return on_device({}, [&] {
      const CUfunction function =
          make_kernel("declare", simgpu::kernel_body<DeclareAndWrite, int*, std::uint64_t>());
      CUdeviceptr block = 0;
      OK(cuMemAlloc(&block, 4096));
      CUdeviceptr to = 0;
      std::uint64_t bytes = 4;
      choose(block, &to, &bytes);
      void* params[] = {&to, &bytes};
      launch(function, nullptr, params);
      return cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
    });
  };
  static int on_host = 0;
  REQUIRE(result_of([](CUdeviceptr block, CUdeviceptr* to, std::uint64_t*) { *to = block; }) == 0);
  REQUIRE(result_of([](CUdeviceptr, CUdeviceptr* to, std::uint64_t*) {
            *to = reinterpret_cast<CUdeviceptr>(&on_host);
          }) == 1);
  REQUIRE(result_of([](CUdeviceptr block, CUdeviceptr* to, std::uint64_t* bytes) {
            *to = block;
            *bytes = 4097;
          }) == 1);
  REQUIRE(result_of([](CUdeviceptr block, CUdeviceptr* to, std::uint64_t*) {
            CUdeviceptr neighbour = 0;
            OK(cuMemAlloc(&neighbour, 4096));
            OK(cuMemFree(block));
            *to = block;
          }) == 1);
}

TEST_CASE("fault: a fault of the program itself reaches the program's own handler") {
  on_device({}, [] {
    static sigjmp_buf resume;
    static volatile std::sig_atomic_t handled = 0;
    struct sigaction mine {};
    mine.sa_handler = [](int) {
      handled = 1;
      siglongjmp(resume, 1);
    };
    mine.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &mine, nullptr);
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 4096));
    OK(cuMemsetD8(block, 1, 4096));
    OK(cuCtxSynchronize());  // simgpu's handler is in front now
    if (sigsetjmp(resume, 1) == 0) *reinterpret_cast<volatile int*>(block + 64 * kFrame) = 1;
    EXPECT(handled == 1);
    // And the device still traps: its handler goes in front again.
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr to = block + 64 * kFrame;
    int value = 1;
    void* params[] = {&to, &value};
    launch(function, nullptr, params);
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("fault: threads that share the device see one error and no hang") {
  on_device({}, [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    const CUfunction function = make_kernel("write_one", simgpu::kernel_body<WriteOne, int*, int>());
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 4096));
    const auto work = [&](bool bad) {
      OK(cuCtxSetCurrent(context));
      CUdeviceptr to = bad ? block + 64 * kFrame : block;
      int value = 1;
      void* params[] = {&to, &value};
      CUresult result = CUDA_SUCCESS;
      for (int i = 0; i < 500 && result == CUDA_SUCCESS; ++i) {
        result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, CU_STREAM_PER_THREAD, params, nullptr);
      }
      if (result == CUDA_SUCCESS) result = cuStreamSynchronize(CU_STREAM_PER_THREAD);
      EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
    };
    std::thread one(work, false);
    std::thread two(work, true);
    one.join();
    two.join();
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("fault: stream memory operations end where memory has no access, or not such access") {
  for (const bool write : {false, true}) {
    on_device({}, [write] {
      Vmm memory;
      CUmemAccessDesc access{};
      access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access.flags = write ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      OK(cuMemSetAccess(memory.base, kFrame, &access, 1));
      CUstream stream = nullptr;
      OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      OK(write ? cuStreamWriteValue32(stream, memory.base, 1, 0)
               : cuStreamWaitValue32(stream, memory.base, 0, CU_STREAM_WAIT_VALUE_GEQ));
      EXPECT_RESULT(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
      return 0;
    });
  }
}
