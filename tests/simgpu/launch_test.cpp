// Kernels and launches. Documentation: CUDA Driver API, pages "Execution Control", "Library Management",
// "Module Management" and "Occupancy".

#include <catch2/catch.hpp>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

extern "C" int simgpuLibrarySetBody(void* library, const char* name, const SimgpuKernelBody* body);

namespace {

using namespace simgpu_test;

struct Mixed {
  template <class C>
  static void run(C& c, char a, double b, int* out, short d, float e) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *out = a + static_cast<int>(b) + d + static_cast<int>(e);
    });
  }
};
const SimgpuKernelBody* mixed_body() {
  return simgpu::kernel_body<Mixed, char, double, int*, short, float>();
}

/// Sums a block's threads through shared memory, over all dimensions.
struct Reduce {
  template <class C>
  static void run(C& c, int* out) {
    SIMGPU_SHARED(c, int, sums, 256);
    auto mine = simgpu::local<int>(c);
    c.phase([&](unsigned tid) { mine(tid) = static_cast<int>(c.thread(tid).x + 100 * c.thread(tid).y); });
    c.phase([&](unsigned tid) { sums[tid] = mine(tid); });
    for (unsigned half = c.block_threads() / 2; half > 0; half /= 2) {
      c.phase([&](unsigned tid) {
        if (tid < half) sums[tid] += sums[tid + half];
      });
    }
    c.phase([&](unsigned tid) {
      if (tid == 0) c.atomic_add(out, sums[0] + static_cast<int>(c.block().x));
    });
  }
};

CUdeviceptr zeroed_int() {
  CUdeviceptr out = 0;
  OK(cuMemAlloc(&out, sizeof(int)));
  OK(cuMemsetD32(out, 0, 1));
  return out;
}

int read_int(CUdeviceptr from) {
  int value = 0;
  OK(cuMemcpyDtoH(&value, from, sizeof value));
  return value;
}

}  // namespace

TEST_CASE("launch: a kernel without parameters needs no list of them") {
  on_device({}, [] {
    static int runs = 0;
    struct CountRuns {
      static void run(simgpu::CpuContext& c) {
        c.phase([](unsigned) { ++runs; });
      }
    };
    const CUfunction function = make_kernel("count_runs", simgpu::kernel_body<CountRuns>());
    OK(cuLaunchKernel(function, 2, 1, 1, 3, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
    EXPECT(runs == 6);
    return 0;
  });
}

TEST_CASE("launch: parameter layout follows alignment, and the index after the last is refused") {
  on_device({}, [] {
    const CUfunction function = make_kernel("mixed", mixed_body());
    const std::size_t offsets[] = {0, 8, 16, 24, 28};
    const std::size_t sizes[] = {1, 8, 8, 2, 4};
    for (std::size_t i = 0; i < 5; ++i) {
      std::size_t offset = 99;
      std::size_t size = 99;
      OK(cuFuncGetParamInfo(function, i, &offset, &size));
      EXPECT(offset == offsets[i] && size == sizes[i]);
    }
    std::size_t offset = 0;
    EXPECT_RESULT(cuFuncGetParamInfo(function, 5, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuFuncGetParamInfo(function, 0, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuFuncGetParamInfo(nullptr, 0, &offset, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuFuncGetParamInfo(function, 0, &offset, nullptr));
    return 0;
  });
}

TEST_CASE("launch: parameters are copied at the call, one by one and packed") {
  const int wrong = count_over_seeds(30, [] {
    const CUfunction function = make_kernel("mixed", mixed_body());
    CUdeviceptr out = zeroed_int();
    char a = 1;
    double b = 20;
    short d = 300;
    float e = 4000;
    void* params[] = {&a, &b, &out, &d, &e};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    a = 0;
    b = 0;
    EXPECT(read_int(out) == 4321);
    struct {
      char a = 2;
      double b = 40;
      CUdeviceptr out = 0;
      short d = 600;
      float e = 8000;
    } packed;
    packed.out = out;
    std::size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT(read_int(out) == 8642);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    size = 8;
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("launch: phases, shared memory, locals and blocks") {
  on_device({}, [] {
    const CUfunction function = make_kernel("reduce", simgpu::kernel_body<Reduce, int*>());
    CUdeviceptr out = zeroed_int();
    void* params[] = {&out};
    OK(cuLaunchKernel(function, 3, 1, 1, 8, 4, 1, 0, nullptr, params, nullptr));
    // One block: x sums to 4 * 28, y to 8 * 600; the blocks add 0 + 1 + 2.
    EXPECT(read_int(out) == 3 * (112 + 4800) + 3);
    return 0;
  });
}

TEST_CASE(
    "launch: a kernel is launched by its CUkernel and by its CUfunction, plain, extended and cooperative") {
  on_device({}, [] {
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    OK(cuLibraryLoadData(&library, "simgpu", nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_RESULT(cuLibraryGetKernel(&kernel, library, "reduce"), CUDA_ERROR_NOT_FOUND);
    EXPECT(simgpuLibrarySetBody(library, "reduce", simgpu::kernel_body<Reduce, int*>()) == CUDA_SUCCESS);
    OK(cuLibraryGetKernel(&kernel, library, "reduce"));
    OK(cuKernelGetFunction(&function, kernel));
    const char* name = nullptr;
    OK(cuFuncGetName(&name, function));
    EXPECT(std::string(name) == "reduce");
    std::size_t offset = 0;
    std::size_t size = 0;
    OK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
    EXPECT(offset == 0 && size == 8);
    CUdeviceptr out = zeroed_int();
    void* params[] = {&out};
    const auto as_function = reinterpret_cast<CUfunction>(kernel);
    OK(cuLaunchKernel(as_function, 1, 1, 1, 2, 1, 1, 0, nullptr, params, nullptr));
    OK(cuLaunchKernel(function, 1, 1, 1, 2, 1, 1, 0, nullptr, params, nullptr));
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 2;
    config.blockDimY = config.blockDimZ = 1;
    OK(cuLaunchKernelEx(&config, function, params, nullptr));
    OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 2, 1, 1, 0, nullptr, params));
    EXPECT(read_int(out) == 4);
    EXPECT_RESULT(cuLaunchCooperativeKernel(function, 1'000'000, 1, 1, 2, 1, 1, 0, nullptr, params),
                  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuLibraryUnload(library));
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 2, 1, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_HANDLE);
    return 0;
  });
}

TEST_CASE("launch: impossible shapes are refused at the call") {
  on_device({}, [] {
    const CUfunction function = make_kernel("reduce", simgpu::kernel_body<Reduce, int*>());
    CUdeviceptr out = zeroed_int();
    void* params[] = {&out};
    EXPECT_RESULT(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 64, 64, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 65536, 1, 1, 1, 1, 0, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 49153, nullptr, params, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100'000));
    int value = 0;
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    EXPECT(value == 100'000);
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 49153, nullptr, params, nullptr));
    OK(cuCtxSynchronize());
    return 0;
  });
}

TEST_CASE("launch: a kernel without a CPU body is refused, not skipped") {
  on_device({}, [] {
    const CUfunction function = make_kernel("no_body", nullptr);
    EXPECT_RESULT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                  CUDA_ERROR_NOT_SUPPORTED);
    OK(cuCtxSynchronize());
    return 0;
  });
}

TEST_CASE("launch: what is no image is refused") {
  on_device({}, [] {
    CUmodule module = nullptr;
    EXPECT_RESULT(cuModuleLoadData(&module, "hello, this is text"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_RESULT(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("launch: occupancy") {
  on_device({}, [] {
    const CUfunction function = make_kernel("reduce", simgpu::kernel_body<Reduce, int*>());
    int blocks = 0;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
    EXPECT(blocks == 8);
    int grid = 0;
    int block = 0;
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0));
    EXPECT(block == 1024 && grid == 2 * 132);
    return 0;
  });
}
