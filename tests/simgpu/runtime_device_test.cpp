// Devices, contexts and errors of the runtime. Documentation: CUDA Runtime API, pages "Device Management",
// "Error Handling", "Peer Device Memory Access", "Driver Entry Point Access", "Interactions with the CUDA
// Driver API".

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/simgpu/runtime_process.h"

namespace {

using namespace simgpu_test;

int active(int device) {
  unsigned flags = 0;
  int is_active = 0;
  OK(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
  return is_active;
}

int current_device() {
  int device = -1;
  RT(cudaGetDevice(&device));
  return device;
}

/// Ends the context of the current device with an illegal address.
void end_context() {
  static char stub = 0;
  struct Wild {
    static void run(simgpu::CpuContext& c, int* where) {
      c.phase([&](unsigned) { *where = 1; });
    }
  };
  register_kernel(&stub, "wild", simgpu::kernel_body<Wild, int*>());
  int* where = nullptr;
  void* args[] = {&where};
  RT(cudaLaunchKernel(&stub, dim3{1}, dim3{1}, args, 0, nullptr));
  RT_RESULT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

}  // namespace

TEST_CASE("runtime: devices are initialised when they are first used, and only those") {
  on_device(runtime_setup(3), [] {
    int count = 0;
    RT(cudaGetDeviceCount(&count));
    EXPECT(count == 3);
    EXPECT(current_device() == 0);
    EXPECT(active(0) == 0);
    RT(cudaSetDevice(2));
    EXPECT(current_device() == 2);
    EXPECT(active(0) == 0 && active(1) == 0 && active(2) == 1);
    void* block = nullptr;
    RT(cudaMalloc(&block, 1));
    cudaPointerAttributes attributes{};
    RT(cudaPointerGetAttributes(&attributes, block));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 2);
    EXPECT(attributes.devicePointer == block && attributes.hostPointer == nullptr);
    RT(cudaInitDevice(1, 0, 0));
    EXPECT(active(1) == 1 && current_device() == 2);
    return 0;
  });
}

TEST_CASE("runtime: a wrong device is refused and the old one stays") {
  on_device(runtime_setup(2), [] {
    RT(cudaSetDevice(1));
    RT_RESULT(cudaSetDevice(2), cudaErrorInvalidDevice);
    RT_RESULT(cudaSetDevice(-1), cudaErrorInvalidDevice);
    EXPECT(current_device() == 1);
    RT_RESULT(cudaInitDevice(2, 0, 0), cudaErrorInvalidDevice);
    RT_RESULT(cudaInitDevice(0, 0, 2), cudaErrorInvalidValue);
    RT_RESULT(cudaGetDevice(nullptr), cudaErrorInvalidValue);
    RT_RESULT(cudaSetDeviceFlags(0x10000), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: each thread has its own device, and starts with the first") {
  on_device(runtime_setup(2), [] {
    RT(cudaSetDevice(1));
    std::thread([] {
      EXPECT(current_device() == 0);
      void* block = nullptr;
      RT(cudaMalloc(&block, 1));
      cudaPointerAttributes attributes{};
      RT(cudaPointerGetAttributes(&attributes, block));
      EXPECT(attributes.device == 0);
    }).join();
    EXPECT(current_device() == 1);
    return 0;
  });
}

TEST_CASE("runtime: a context that the driver API made current is used") {
  on_device(runtime_setup(2), [] {
    CUcontext made = nullptr;
    CUcontext found = nullptr;
    OK(cuInit(0));
    OK(cuCtxCreate(&made, nullptr, 0, 1));
    EXPECT(current_device() == 1);
    void* block = nullptr;
    RT(cudaMalloc(&block, 1));
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == made && active(0) == 0 && active(1) == 0);
    OK(cuCtxPopCurrent(&found));
    RT(cudaMalloc(&block, 1));  // nothing is current: the primary context of the thread's device is bound
    OK(cuCtxGetCurrent(&found));
    EXPECT(found != nullptr && found != made && active(0) == 1);
    RT(cudaSetDevice(1));
    EXPECT(active(1) == 1);
    return 0;
  });
}

TEST_CASE("runtime: flags of a device are those of its context") {
  on_device(runtime_setup(), [] {
    unsigned flags = 0;
    RT(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    RT(cudaGetDeviceFlags(&flags));
    EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
    EXPECT(active(0) == 1);
    return 0;
  });
}

TEST_CASE("runtime: properties are the driver's attributes") {
  on_device(runtime_setup(2), [] {
    cudaDeviceProp p{};
    RT(cudaGetDeviceProperties(&p, 1));
    EXPECT(std::strlen(p.name) > 0);
    EXPECT(p.totalGlobalMem == 64 * kMiB);
    const auto is = [](cudaDeviceAttr which, long long value) {
      int found = -1;
      RT(cudaDeviceGetAttribute(&found, which, 1));
      return found == value;
    };
    EXPECT(is(cudaDevAttrComputeCapabilityMajor, p.major) && is(cudaDevAttrComputeCapabilityMinor, p.minor));
    EXPECT(is(cudaDevAttrWarpSize, p.warpSize) && is(cudaDevAttrMultiProcessorCount, p.multiProcessorCount));
    EXPECT(is(cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock) &&
           is(cudaDevAttrMaxGridDimZ, p.maxGridSize[2]));
    EXPECT(is(cudaDevAttrManagedMemory, p.managedMemory));
    EXPECT(is(cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported));
    EXPECT(is(cudaDevAttrPciDeviceId, p.pciDeviceID) && is(cudaDevAttrPciBusId, p.pciBusID));
    EXPECT(is(cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<long long>(p.sharedMemPerBlockOptin)));
    RT_RESULT(cudaGetDeviceProperties(&p, 2), cudaErrorInvalidDevice);
    RT_RESULT(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
    int chosen = -1;
    RT(cudaChooseDevice(&chosen, &p));
    EXPECT(chosen == 0);
    RT_RESULT(cudaChooseDevice(&chosen, nullptr), cudaErrorInvalidValue);
    RT_RESULT(cudaChooseDevice(nullptr, &p), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: the last error is kept until it is read, and by thread") {
  on_device(runtime_setup(), [] {
    RT(cudaGetLastError());
    void* block = nullptr;
    RT_RESULT(cudaMalloc(&block, std::size_t{1} << 50), cudaErrorMemoryAllocation);
    RT(cudaMalloc(&block, 1));  // success does not clear it
    RT_RESULT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    std::thread([] { RT(cudaGetLastError()); }).join();
    RT_RESULT(cudaSetDevice(7), cudaErrorInvalidDevice);
    RT_RESULT(cudaGetLastError(), cudaErrorInvalidDevice);
    RT(cudaGetLastError());
    return 0;
  });
}

TEST_CASE("runtime: an error that ended the context stays, also after a reset of the device") {
  on_device(runtime_setup(), [] {
    end_context();
    RT_RESULT(cudaGetLastError(), cudaErrorIllegalAddress);
    RT(cudaGetLastError());  // taken; the device has it still
    void* block = nullptr;
    RT_RESULT(cudaMalloc(&block, 1), cudaErrorIllegalAddress);
    RT(cudaDeviceReset());
    EXPECT(active(0) == 0);
    RT_RESULT(cudaMalloc(&block, 1), cudaErrorIllegalAddress);
    RT_RESULT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return 0;
  });
}

TEST_CASE("runtime: a reset frees everything of its device and nothing of another") {
  on_device(runtime_setup(2), [] {
    void* first = nullptr;
    void* second = nullptr;
    std::size_t free = 0;
    std::size_t total = 0;
    RT(cudaDeviceReset());  // nothing was started: nothing to do
    RT(cudaMalloc(&first, 4 * kMiB));
    RT(cudaSetDevice(1));
    RT(cudaMalloc(&second, 4 * kMiB));
    RT(cudaDeviceReset());
    EXPECT(active(0) == 1 && active(1) == 0);
    EXPECT(current_device() == 1);
    RT(cudaMemGetInfo(&free, &total));
    EXPECT(free == total);
    RT_RESULT(cudaFree(second), cudaErrorInvalidValue);
    RT(cudaSetDevice(0));
    RT(cudaFree(first));
    return 0;
  });
}

TEST_CASE("runtime: a thread goes on after another has reset its device") {
  on_device(runtime_setup(), [] {
    void* block = nullptr;
    RT(cudaMalloc(&block, 1));
    std::thread([] { RT(cudaDeviceReset()); }).join();
    RT(cudaMalloc(&block, 1));
    RT(cudaFree(block));
    return 0;
  });
}

TEST_CASE("runtime: the first call comes from many threads at once") {
  for (int round = 0; round < 20; ++round) {
    on_device(runtime_setup(2), [] {
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([i] {
          RT(cudaSetDevice(i % 2));
          void* block = nullptr;
          RT(cudaMalloc(&block, 1));
          RT(cudaFree(block));
          EXPECT(current_device() == i % 2);
        });
      }
      for (std::thread& thread : threads) thread.join();
      RT(cudaDeviceReset());
      EXPECT(active(0) == 0 && active(1) == 1);  // each was retained once
      return 0;
    });
  }
}

TEST_CASE("runtime: entry points of the driver come by version, and in their per-thread form on request") {
  on_device(runtime_setup(), [] {
    void* function = nullptr;
    auto status = cudaDriverEntryPointSymbolNotFound;
    RT(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &status));
    EXPECT(function == reinterpret_cast<void*>(&cuMemAlloc) && status == cudaDriverEntryPointSuccess);
    RT(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &function, 11010, cudaEnableDefault, &status));
    EXPECT(function == nullptr && status == cudaDriverEntryPointVersionNotSufficent);
    RT(cudaGetDriverEntryPointByVersion("cuNone", &function, 13000, cudaEnableDefault, &status));
    EXPECT(function == nullptr && status == cudaDriverEntryPointSymbolNotFound);
    RT_RESULT(cudaGetDriverEntryPointByVersion("cuInit", &function, 14000, cudaEnableDefault, &status),
              cudaErrorInvalidValue);
    RT_RESULT(cudaGetDriverEntryPointByVersion(nullptr, &function, 13000, cudaEnableDefault, &status),
              cudaErrorInvalidValue);
    void* legacy = nullptr;
    void* per_thread = nullptr;
    RT(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &legacy, 13000, cudaEnableLegacyStream, nullptr));
    RT(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &per_thread, 13000, cudaEnablePerThreadDefaultStream,
                                        nullptr));
    EXPECT(legacy != nullptr && per_thread != nullptr && legacy != per_thread);
    return 0;
  });
}

TEST_CASE("runtime: what it does not have says so, keeps its hands off and is in the report") {
  on_device(runtime_setup(), [] {
    cudaArray_t array = reinterpret_cast<cudaArray_t>(1);
    const cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    EXPECT(format.x == 32 && format.y == 0 && format.f == cudaChannelFormatKindFloat);
    RT_RESULT(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
    EXPECT(array == reinterpret_cast<cudaArray_t>(1));
    RT_RESULT(cudaGetLastError(), cudaErrorNotSupported);
    RT_RESULT(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
    EXPECT(refusals("cudaMallocArray") == 2);
    RT(cudaDeviceSynchronize());
    return 0;
  });
}

TEST_CASE("runtime: versions are known without a device") {
  on_device(runtime_setup(), [] {
    int version = 0;
    RT(cudaRuntimeGetVersion(&version));
    EXPECT(version == 13000);
    RT(cudaDriverGetVersion(&version));
    EXPECT(version == 13000);
    RT_RESULT(cudaRuntimeGetVersion(nullptr), cudaErrorInvalidValue);
    RT_RESULT(cudaDriverGetVersion(nullptr), cudaErrorInvalidValue);
    EXPECT(active(0) == 0);
    return 0;
  });
}
