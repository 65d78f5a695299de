// What a run of days needs: nothing grows with the number of calls.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

constexpr int kLaunches = 1'000'000;

struct Touch {
  template <class C>
  static void run(C& c, std::uint32_t* to) {
    c.writes(to, sizeof *to);
    c.phase([&](unsigned tid) {
      if (tid == 0) ++*to;
    });
  }
};

/// KiB of memory that this process holds, without what it shares (the device's memory and the machine).
std::uint64_t own_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(line.find_first_of("0123456789")));
  }
  return 0;
}

}  // namespace

TEST_CASE(
    "long run: a million launches in two streams with events, copies and allocations leave nothing behind",
    "[plain]") {
  on_device({}, [] {
    CUfunction function = make_kernel("touch", simgpu::kernel_body<Touch, std::uint32_t*>());
    CUstream streams[2] = {};
    CUevent events[2] = {};
    CUdeviceptr counters[2] = {};
    for (int i = 0; i < 2; ++i) {
      OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
      OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
      OK(cuMemAlloc(&counters[i], sizeof(std::uint32_t)));
      OK(cuMemsetD32(counters[i], 0, 1));
    }
    OK(cuCtxSynchronize());
    std::uint64_t early = 0;
    for (int i = 0; i < kLaunches; ++i) {
      const int s = i % 2;
      void* params[] = {&counters[s]};
      OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[s], params, nullptr));
      if (i % 16 < 2) {
        OK(cuEventRecord(events[s], streams[s]));
        OK(cuStreamWaitEvent(streams[1 - s], events[s], 0));
      }
      if (i % 64 < 2) {
        CUdeviceptr passing = 0;
        OK(cuMemAllocAsync(&passing, 4096 + static_cast<std::size_t>(i) % 4096, streams[s]));
        OK(cuMemcpyDtoDAsync(passing, counters[s], sizeof(std::uint32_t), streams[s]));
        OK(cuMemFreeAsync(passing, streams[s]));
      }
      if (i % 10'000 == 0) OK(cuStreamSynchronize(streams[s]));
      if (i == kLaunches / 10) early = own_kib();
    }
    OK(cuCtxSynchronize());
    EXPECT(early != 0);
    EXPECT(own_kib() <= early + 512);
    for (const CUdeviceptr counter : counters) {
      std::uint32_t count = 0;
      OK(cuMemcpyDtoH(&count, counter, sizeof count));
      EXPECT(count == kLaunches / 2);
    }
    return 0;
  });
}

TEST_CASE("long run: streams that come and go leave nothing behind", "[plain]") {
  on_device({}, [] {
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&address, 64));
    std::uint64_t early = 0;
    for (int i = 0; i < 60'000; ++i) {
      CUstream stream = nullptr;
      OK(cuStreamCreate(&stream, i % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
      OK(cuMemsetD32Async(address, 1, 1, stream));
      OK(cuStreamSynchronize(stream));
      OK(cuStreamDestroy(stream));
      if (i == 6000) early = own_kib();
    }
    EXPECT(own_kib() <= early + 512);
    return 0;
  });
}

TEST_CASE("long run: threads that use the per-thread stream leave nothing behind", "[plain]") {
  on_device({}, [] {
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    OK(cuMemAlloc(&address, 64));
    OK(cuCtxGetCurrent(&context));
    std::uint64_t early = 0;
    for (int i = 0; i < 10'000; ++i) {
      std::thread([&] {
        OK(cuCtxSetCurrent(context));
        OK(cuMemsetD32Async(address, 1, 1, CU_STREAM_PER_THREAD));
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
      }).join();
      if (i == 1000) early = own_kib();
    }
    EXPECT(own_kib() <= early + 512);
    return 0;
  });
}

TEST_CASE("long run: of contexts that come and go little more than the handle is kept", "[plain]") {
  on_device({}, [] {
    constexpr int kContexts = 16'000;
    CUdeviceptr address = 0;
    OK(cuMemAlloc(&address, 64));
    std::uint64_t early = 0;
    for (int i = 0; i < kContexts; ++i) {
      CUcontext context = nullptr;
      CUmodule module = nullptr;
      OK(cuCtxCreate(&context, nullptr, 0, 0));
      OK(cuModuleLoadData(&module, "simgpu"));
      for (int k = 0; k < 8; ++k) {
        CUevent event = nullptr;
        OK(cuEventCreate(&event, 0));
        OK(cuEventRecord(event, nullptr));
      }
      OK(cuMemsetD32Async(address, 0, 1, nullptr));
      OK(cuCtxSynchronize());
      OK(cuCtxDestroy(context));
      if (i == kContexts / 2) early = own_kib();
    }
    // A destroyed context is told from what never was one: CUDA_ERROR_CONTEXT_IS_DESTROYED.
    EXPECT(own_kib() <= early + kContexts / 8 + 512);
    return 0;
  });
}
