// Kernels, streams and start-up of the runtime. Documentation: CUDA Runtime API, pages "Execution Control",
// "Occupancy", "Stream Management", "Interactions with the CUDA Driver API" and the note on cudaKernel_t.

#include <cuda_profiler_api.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "simgpu/kernel.h"
#include "tests/simgpu/runtime_process.h"

extern "C" cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* stub);
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args,
                                          std::size_t shared, cudaStream_t stream);
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                                CUstream_st* stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream);

namespace {

using namespace simgpu_test;

struct Add {
  static void run(simgpu::CpuContext& c, int* where, int what) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *where += what;
    });
  }
};

/// Registers Add; its address is what nvcc's host stub would be.
const void* add_stub() {
  static char stub = 0;
  static const bool once = [] {
    register_kernel(&stub, "add", simgpu::kernel_body<Add, int*, int>());
    return true;
  }();
  static_cast<void>(once);
  return &stub;
}

/// An int in device memory that launches add to.
class Sum {
 public:
  Sum() {
    RT(cudaMalloc(&at_, sizeof(int)));
    RT(cudaMemset(at_, 0, sizeof(int)));
  }
  void** args() { return args_; }
  int value() {
    int found = 0;
    RT(cudaMemcpy(&found, at_, sizeof found, cudaMemcpyDeviceToHost));
    return found;
  }

 private:
  void* at_ = nullptr;
  int one_ = 1;
  void* args_[2] = {&at_, &one_};
};

}  // namespace

TEST_CASE("runtime: a launch whose kernel was not found keeps the error that says why") {
  on_device(runtime_setup(), [] {
    static const char no_stub = 0;
    cudaKernel_t kernel = nullptr;
    EXPECT(__cudaGetKernel(&kernel, &no_stub) == cudaErrorInvalidDeviceFunction);
    EXPECT(kernel == nullptr);
    Sum sum;
    const dim3 one{1};
    EXPECT(__cudaLaunchKernel(kernel, one, one, sum.args(), 0, nullptr) == cudaErrorInvalidDeviceFunction);
    EXPECT(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
    EXPECT(__cudaLaunchKernel(nullptr, one, one, sum.args(), 0, nullptr) == cudaErrorInvalidResourceHandle);
    return 0;
  });
}

TEST_CASE("runtime: every way to launch launches, by stub and by kernel handle") {
  on_device(runtime_setup(), [] {
    Sum sum;
    cudaKernel_t kernel = nullptr;
    cudaKernel_t again = nullptr;
    RT(__cudaGetKernel(&kernel, add_stub()));
    RT(cudaGetKernel(&again, add_stub()));
    EXPECT(kernel != nullptr && kernel == again);
    const dim3 one{1};
    RT(cudaLaunchKernel(add_stub(), one, one, sum.args(), 0, nullptr));
    RT(cudaLaunchKernel(kernel, one, one, sum.args(), 0, nullptr));
    RT(__cudaLaunchKernel(kernel, one, one, sum.args(), 0, nullptr));
    RT(cudaLaunchCooperativeKernel(add_stub(), one, one, sum.args(), 0, nullptr));
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = one;
    RT(cudaLaunchKernelExC(&config, add_stub(), sum.args()));
    RT(cudaLaunchKernelExC(&config, kernel, sum.args()));
    EXPECT(sum.value() == 6);
    return 0;
  });
}

TEST_CASE("runtime: a launch that cannot be says which part of it is wrong") {
  on_device(runtime_setup(), [] {
    Sum sum;
    const dim3 one{1};
    const auto launch = [&](dim3 grid, dim3 block, std::size_t shared = 0) {
      return cudaLaunchKernel(add_stub(), grid, block, sum.args(), shared, nullptr);
    };
    for (const dim3 bad : {dim3{0}, dim3{1, 0}, dim3{1, 1, 0}, dim3{1, 65536}, dim3{1, 1, 65536}}) {
      RT_RESULT(launch(bad, one), cudaErrorInvalidConfiguration);
      RT_RESULT(cudaGetLastError(), cudaErrorInvalidConfiguration);
    }
    for (const dim3 bad : {dim3{0}, dim3{1025}, dim3{64, 64}, dim3{1, 1, 65}})
      RT_RESULT(launch(one, bad), cudaErrorInvalidConfiguration);
    RT_RESULT(launch(one, one, std::size_t{1} << 30), cudaErrorInvalidValue);
    RT_RESULT(launch(one, one, (std::size_t{1} << 32) + 16), cudaErrorInvalidValue);
    static char unknown = 0;
    RT_RESULT(cudaLaunchKernel(&unknown, one, one, sum.args(), 0, nullptr), cudaErrorInvalidDeviceFunction);
    cudaKernel_t kernel = nullptr;
    RT_RESULT(cudaGetKernel(&kernel, &unknown), cudaErrorInvalidDeviceFunction);
    cudaStream_t stream = nullptr;
    RT(cudaStreamCreate(&stream));
    RT(cudaStreamDestroy(stream));
    RT_RESULT(cudaLaunchKernel(add_stub(), one, one, sum.args(), 0, stream), cudaErrorInvalidResourceHandle);
    RT_RESULT(cudaLaunchKernelExC(nullptr, add_stub(), sum.args()), cudaErrorInvalidValue);
    EXPECT(sum.value() == 0);
    return 0;
  });
}

TEST_CASE("runtime: a function has a name, attributes and parameters") {
  on_device(runtime_setup(2), [] {
    const char* name = nullptr;
    RT(cudaFuncGetName(&name, add_stub()));
    EXPECT(std::strcmp(name, "add") == 0);
    std::size_t offset = 0;
    std::size_t bytes = 0;
    RT(cudaFuncGetParamInfo(add_stub(), 1, &offset, &bytes));
    EXPECT(offset == 8 && bytes == 4);
    RT_RESULT(cudaFuncGetParamInfo(add_stub(), 2, &offset, &bytes), cudaErrorInvalidValue);
    RT(cudaSetDevice(1));
    cudaFuncAttributes a{};
    RT(cudaFuncGetAttributes(&a, add_stub()));
    EXPECT(a.maxThreadsPerBlock > 0 && a.clusterDimMustBeSet == 0);
    RT(cudaFuncSetAttribute(add_stub(), cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    RT(cudaFuncGetAttributes(&a, add_stub()));
    EXPECT(a.maxDynamicSharedSizeBytes == 60000);
    RT(cudaFuncSetCacheConfig(add_stub(), cudaFuncCachePreferL1));
    int blocks = 0;
    RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_stub(), 128, 0));
    EXPECT(blocks > 0);
    RT_RESULT(cudaFuncGetAttributes(nullptr, add_stub()), cudaErrorInvalidValue);
    static char unknown = 0;
    RT_RESULT(cudaFuncGetAttributes(&a, &unknown), cudaErrorInvalidDeviceFunction);
    return 0;
  });
}

TEST_CASE("runtime: configurations of launches nest, by thread") {
  on_device(runtime_setup(), [] {
    dim3 grid;
    dim3 block;
    std::size_t shared = 0;
    cudaStream_t stream = nullptr;
    EXPECT(__cudaPushCallConfiguration(dim3{1}, dim3{2}, 3, nullptr) == 0);
    EXPECT(__cudaPushCallConfiguration(dim3{4}, dim3{5}, 6, nullptr) == 0);
    std::thread([&] {
      RT_RESULT(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
    }).join();
    RT(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.x == 4 && block.x == 5 && shared == 6);
    RT(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.x == 1 && block.x == 2 && shared == 3);
    return 0;
  });
}

TEST_CASE("runtime: a variable that nobody registered is no symbol, and directions are checked first") {
  on_device(runtime_setup(), [] {
    static int variable = 0;
    int value = 0;
    void* address = nullptr;
    std::size_t bytes = 0;
    RT_RESULT(cudaMemcpyToSymbol(&variable, &value, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
    RT_RESULT(cudaMemcpyToSymbol(&variable, &value, 4, 0, cudaMemcpyDeviceToHost),
              cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaMemcpyFromSymbol(&value, &variable, 4, 0, cudaMemcpyHostToDevice),
              cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaGetSymbolAddress(&address, &variable), cudaErrorInvalidSymbol);
    RT_RESULT(cudaGetSymbolSize(&bytes, &variable), cudaErrorInvalidSymbol);
    RT_RESULT(cudaGetSymbolAddress(nullptr, &variable), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: a stream's callbacks run once each, in order, with the stream's state") {
  on_device(runtime_setup(), [] {
    static int calls = 0;
    static cudaStream_t seen = nullptr;
    static int first_argument = 0;
    cudaStream_t stream = nullptr;
    RT(cudaStreamCreate(&stream));
    const auto callback = [](cudaStream_t of, cudaError_t status, void* argument) {
      seen = of;
      if (calls == 0) first_argument = *static_cast<int*>(argument);
      if (status == cudaSuccess) ++calls;
    };
    int one = 1;
    int two = 2;
    RT(cudaStreamAddCallback(stream, callback, &one, 0));
    RT(cudaStreamAddCallback(stream, callback, &two, 0));
    RT(cudaStreamSynchronize(stream));
    EXPECT(calls == 2 && first_argument == 1 && seen == stream);
    RT_RESULT(cudaStreamAddCallback(stream, nullptr, nullptr, 0), cudaErrorInvalidValue);
    RT_RESULT(cudaStreamAddCallback(stream, callback, nullptr, 1), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: callbacks behind an error run all the same, once, and are told of it") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    DeviceSetup setup = runtime_setup();
    setup.seed = seed;
    on_device(setup, [] {
      static int calls = 0;
      static int host_calls = 0;
      static cudaError_t told[2] = {};
      static cudaError_t from_inside = cudaSuccess;
      const auto callback = [](cudaStream_t, cudaError_t status, void* which) {
        told[*static_cast<int*>(which)] = status;
        from_inside = cudaDeviceSynchronize();
        ++calls;
      };
      cudaStream_t stream = nullptr;
      RT(cudaStreamCreate(&stream));
      int which[2] = {0, 1};
      RT(cudaStreamAddCallback(stream, callback, &which[0], 0));
      RT(cudaStreamSynchronize(stream));
      int* nowhere = nullptr;
      int one = 1;
      void* args[] = {&nowhere, &one};
      RT(cudaLaunchKernel(add_stub(), dim3{1}, dim3{1}, args, 0, stream));
      // The error may be there already: then nothing is queued, and the call says why.
      const cudaError_t added = cudaStreamAddCallback(stream, callback, &which[1], 0);
      static_cast<void>(cudaLaunchHostFunc(
          stream, [](void*) { ++host_calls; }, nullptr));
      RT_RESULT(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
      EXPECT(told[0] == cudaSuccess && host_calls == 0);
      EXPECT(added == cudaSuccess ? calls == 2 && told[1] == cudaErrorIllegalAddress : calls == 1);
      EXPECT(from_inside == cudaErrorNotPermitted);
      return 0;
    });
  }
}

TEST_CASE("runtime: a stream knows its device, whichever is current") {
  on_device(runtime_setup(2), [] {
    cudaStream_t stream = nullptr;
    int priority = 7;
    unsigned flags = 7;
    RT(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
    RT(cudaStreamGetPriority(stream, &priority));
    RT(cudaStreamGetFlags(stream, &flags));
    EXPECT(priority == -1 && flags == cudaStreamNonBlocking);
    int device = 7;
    RT(cudaSetDevice(1));
    RT(cudaStreamGetDevice(stream, &device));
    EXPECT(device == 0);
    return 0;
  });
}

TEST_CASE("runtime: the profiler's switches are accepted") {
  on_device(runtime_setup(), [] {
    RT(cudaProfilerStart());
    RT(cudaProfilerStop());
    return 0;
  });
}
