#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simgpu/kernel.h"
#include "tests/process/child_process.h"
#include "tests/simgpu/device_process.h"

/// Images through the driver's door: the files that nvcc made of samples.cu, loaded into a simulated H100
/// (compute capability 9.0). Documentation: CUDA Driver API, "Module Management", "Library Management",
/// "Execution Control"; CUDA C++ programming guide, "Lazy Loading".
extern "C" int simgpuLibrarySetBody(void* library, const char* name, const SimgpuKernelBody* body);

namespace {

using namespace simgpu_test;

std::string sample(const char* name) {
  return tidepool::test::built(std::string("tests/simgpu_fatbin/") + name);
}

CUmodule load_file(const char* name) {
  CUmodule module = nullptr;
  OK(cuModuleLoad(&module, sample(name).c_str()));
  return module;
}

CUfunction function_of(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = -1;
  OK(cuFuncGetAttribute(&value, which, function));
  return value;
}

CUdeviceptr global(CUmodule module, const char* name, std::size_t expected_bytes) {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  OK(cuModuleGetGlobal(&address, &bytes, module, name));
  EXPECT(bytes == expected_bytes);
  return address;
}

template <class T>
T value_at(CUdeviceptr address) {
  T value{};
  OK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  return free;
}

struct Scale {
  template <class C>
  static void run(C&, float*, float) {}
};
struct Wrong {
  template <class C>
  static void run(C&, float*, double) {}
};

constexpr const char* kScale = "_Z5scaleIfEvPT_S0_";

}  // namespace

TEST_CASE("module: a function says of itself what the compiler said") {
  on_device({}, [] {
    for (const char* file : {"all.fatbin", "compress_speed.fatbin"}) {
      // The second has PTX for 8.0 and nothing nearer.
      const CUmodule module = load_file(file);
      const bool compiled = std::string(file) == "all.fatbin";
      EXPECT(attribute(function_of(module, "shared_memory"), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 1200);
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 0);
      EXPECT(attribute(function_of(module, "bounded"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES) == 20);
      EXPECT(attribute(function_of(module, "with_stack"), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) >=
             (compiled ? 256 : 0));
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 90);
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_PTX_VERSION) ==
             (compiled ? 90 : 80));
      EXPECT(attribute(function_of(module, "scalars"), CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
    }
    return 0;
  });
}

TEST_CASE("module: kernels without a body have their parameters, and run as digests") {
  on_device({}, [] {
    const CUfunction large = function_of(load_file("all.fatbin"), "large");
    std::size_t offset = 0;
    std::size_t size = 0;
    OK(cuFuncGetParamInfo(large, 0, &offset, &size));
    EXPECT(offset == 0 && size == 5000);
    OK(cuFuncGetParamInfo(large, 2, &offset, &size));
    EXPECT(offset == 5008 && size == 8);
    EXPECT_RESULT(cuFuncGetParamInfo(large, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    std::array<unsigned char, 5000> zeros{};
    void* params[] = {zeros.data(), zeros.data(), zeros.data()};
    OK(cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    OK(cuCtxSynchronize());
    return 0;
  });
}

TEST_CASE("module: its functions are listed, as many as there is room for") {
  on_device({}, [] {
    const CUmodule module = load_file("all.fatbin");
    unsigned count = 0;
    OK(cuModuleGetFunctionCount(&count, module));
    EXPECT(count == 10);
    std::array<CUfunction, 12> functions{};
    OK(cuModuleEnumerateFunctions(functions.data(), 3, module));
    EXPECT(functions[2] != nullptr && functions[3] == nullptr);
    OK(cuModuleEnumerateFunctions(functions.data(), 12, module));
    EXPECT(functions[9] != nullptr && functions[10] == nullptr);
    const char* name = nullptr;
    OK(cuFuncGetName(&name, functions[0]));
    EXPECT(function_of(module, name) == functions[0]);
    return 0;
  });
}

TEST_CASE("module: more threads than a kernel's bounds allow are refused") {
  on_device({}, [] {
    const CUmodule module = load_file("all.fatbin");
    CUdeviceptr out = 0;
    void* params[] = {&out};
    EXPECT_RESULT(
        cuLaunchKernel(function_of(module, "bounded"), 1, 1, 1, 129, 1, 1, 0, nullptr, params, nullptr),
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    return 0;
  });
}

TEST_CASE("module: variables have their initial values, and pointers lead to their targets") {
  on_device({}, [] {
    for (const char* file : {"all.fatbin", "compress_speed.fatbin", "plain.ptx"}) {
      const CUmodule module = load_file(file);
      EXPECT(value_at<int>(global(module, "initialised", 4)) == 77);
      EXPECT(value_at<int>(global(module, "zeroed", 4)) == 0);
      EXPECT(value_at<float>(global(module, "table", 20) + 8) == 3.0F);
      const CUdeviceptr text = global(module, "text", 8);
      EXPECT(std::string(value_at<std::array<char, 8>>(text).data()) == "simgpu");
      EXPECT(value_at<CUdeviceptr>(global(module, "points_to_text", 8)) == text + 2);
      const CUdeviceptr doubles = global(module, "doubles", 8000);
      EXPECT(doubles % 8 == 0 && value_at<double>(doubles + 7992) == 0.0);
    }
    return 0;
  });
}

TEST_CASE("module: a variable is device memory like any other, of its own module") {
  on_device({}, [] {
    const CUmodule one = load_file("all.fatbin");
    const CUmodule two = load_file("all.fatbin");
    OK(cuMemsetD32(global(one, "initialised", 4), 5, 1));
    EXPECT(value_at<int>(global(one, "initialised", 4)) == 5);
    EXPECT(value_at<int>(global(two, "initialised", 4)) == 77);
    const int value = 9;
    OK(cuMemcpyHtoD(global(two, "zeroed", 4), &value, sizeof value));
    EXPECT(value_at<int>(global(two, "zeroed", 4)) == 9);
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, global(one, "doubles", 8000)));
    EXPECT(type == CU_MEMORYTYPE_DEVICE);
    EXPECT_RESULT(cuMemFree(global(one, "zeroed", 4)), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("module: its variables take memory of the device until it is unloaded") {
  on_device({}, [] {
    const std::size_t before = free_bytes();
    const CUmodule module = load_file("all.fatbin");
    EXPECT(free_bytes() < before);
    OK(cuModuleUnload(module));
    EXPECT(free_bytes() == before);
    EXPECT_RESULT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    return 0;
  });
}

TEST_CASE("module: what cannot be a variable is not found") {
  on_device({}, [] {
    const CUmodule module = load_file("all.fatbin");
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    EXPECT_RESULT(cuModuleGetGlobal(&address, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    EXPECT_RESULT(cuModuleGetGlobal(&address, &bytes, module, "scalars"), CUDA_ERROR_NOT_FOUND);
    EXPECT_RESULT(cuModuleGetGlobal(&address, &bytes, nullptr, "zeroed"), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuModuleGetGlobal(&address, &bytes, module, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuModuleGetGlobal(nullptr, nullptr, module, "zeroed"), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleGetGlobal(&address, nullptr, module, "zeroed"));
    OK(cuModuleGetGlobal(nullptr, &bytes, module, "zeroed"));
    EXPECT(bytes == 4);
    return 0;
  });
}

TEST_CASE("library: variables are loaded into each context that asks, anew after a reset") {
  on_device({}, [] {
    CUlibrary library = nullptr;
    OK(cuLibraryLoadFromFile(&library, sample("compress_size.fatbin").c_str(), nullptr, nullptr, 0, nullptr,
                             nullptr, 0));
    const std::size_t before = free_bytes();
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    OK(cuLibraryGetGlobal(&address, &bytes, library, "initialised"));
    EXPECT(bytes == 4 && free_bytes() < before);
    OK(cuMemsetD32(address, 1, 1));
    CUcontext other = nullptr;
    OK(cuCtxCreate(&other, nullptr, 0, 0));
    CUdeviceptr second = 0;
    OK(cuLibraryGetGlobal(&second, nullptr, library, "initialised"));
    EXPECT(second != address && value_at<int>(second) == 77);
    OK(cuCtxDestroy(other));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuLibraryGetGlobal(&address, nullptr, library, "initialised"));
    EXPECT(value_at<int>(address) == 77);
    OK(cuLibraryUnload(library));
    return 0;
  });
}

TEST_CASE("library: a body must have the parameters of its kernel") {
  on_device({}, [] {
    CUlibrary library = nullptr;
    OK(cuLibraryLoadFromFile(&library, sample("all.fatbin").c_str(), nullptr, nullptr, 0, nullptr, nullptr,
                             0));
    EXPECT(simgpuLibrarySetBody(library, kScale, simgpu::kernel_body<Scale, float*, float>()) ==
           CUDA_SUCCESS);
    EXPECT(simgpuLibrarySetBody(library, kScale, simgpu::kernel_body<Wrong, float*, double>()) ==
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(simgpuLibrarySetBody(library, "scale", simgpu::kernel_body<Scale, float*, float>()) ==
           CUDA_ERROR_NOT_FOUND);
    return 0;
  });
}

TEST_CASE("module: images that cannot be used say which way") {
  on_device({}, [] {
    CUmodule module = nullptr;
    EXPECT_RESULT(cuModuleLoad(&module, sample("absent.cubin").c_str()), CUDA_ERROR_FILE_NOT_FOUND);
    EXPECT_RESULT(cuModuleLoad(&module, sample("").c_str()), CUDA_ERROR_FILE_NOT_FOUND);
    EXPECT_RESULT(cuModuleLoad(&module, sample("plain.cubin").c_str()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_RESULT(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_RESULT(cuModuleLoadData(&module, reinterpret_cast<const void*>(std::uintptr_t{64})),
                  CUDA_ERROR_INVALID_IMAGE);
    EXPECT_RESULT(cuModuleLoadData(&module, ".version 9.9\n.target sm_75\n"),
                  CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_RESULT(cuModuleLoadData(&module, ".version 8.0\n.target sm_75\n.visible .entry"),
                  CUDA_ERROR_INVALID_PTX);
    EXPECT(module == nullptr);
    return 0;
  });
}

TEST_CASE("library: unreadable code is found when a kernel is asked for, each time") {
  on_device({}, [] {
    const char* text = ".version 8.0\n.target sm_75\n.visible .entry";
    CUlibrary library = nullptr;
    OK(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel = nullptr;
    EXPECT_RESULT(cuLibraryGetKernel(&kernel, library, "k"), CUDA_ERROR_INVALID_PTX);
    EXPECT_RESULT(cuLibraryGetKernel(&kernel, library, "k"), CUDA_ERROR_INVALID_PTX);
    OK(cuLibraryUnload(library));
    return 0;
  });
}

TEST_CASE("module: options of the compiler are taken, and its logs are empty") {
  on_device({}, [] {
    std::array<char, 64> log{};
    log.fill('x');
    float time = 5;
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME,
                              CU_JIT_OPTIMIZATION_LEVEL};
    void* values[] = {log.data(), reinterpret_cast<void*>(std::uintptr_t{32}), nullptr,
                      reinterpret_cast<void*>(std::uintptr_t{4})};
    CUmodule module = nullptr;
    OK(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_75\n", 4, options, values));
    EXPECT(log[0] == '\0' && log[31] == '\0' && log[32] == 'x');
    EXPECT(values[1] == nullptr);
    std::memcpy(&time, &values[2], sizeof time);
    EXPECT(time == 0.0F);
    options[3] = CU_JIT_NUM_OPTIONS;
    EXPECT_RESULT(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_75\n", 4, options, values),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_75\n", 4, nullptr, nullptr),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("module: functions are loaded lazily, or at once where the environment says so") {
  for (const bool eager : {false, true}) {
    DeviceSetup setup;
    setup.with_context = false;
    on_device(setup, [eager] {
      if (eager) ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
      OK(cuInit(0));
      CUcontext context = nullptr;
      OK(cuDevicePrimaryCtxRetain(&context, 0));
      OK(cuCtxSetCurrent(context));
      CUmoduleLoadingMode mode{};
      OK(cuModuleGetLoadingMode(&mode));
      EXPECT(mode == (eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING));
      const CUfunction function = function_of(load_file("all.fatbin"), "scalars");
      CUfunctionLoadingState state{};
      OK(cuFuncIsLoaded(&state, function));
      EXPECT(state == (eager ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED));
      OK(cuFuncLoad(function));
      OK(cuFuncLoad(function));
      OK(cuFuncIsLoaded(&state, function));
      EXPECT(state == CU_FUNCTION_LOADING_STATE_LOADED);
      return 0;
    });
  }
}

TEST_CASE("module: the image may be freed once it is loaded") {
  on_device({}, [] {
    std::string text = ".version 8.0\n.target sm_75\n.visible .entry k(.param .u32 a) { ret; }\n";
    CUlibrary library = nullptr;
    OK(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    text.assign(text.size(), '#');
    CUkernel kernel = nullptr;
    OK(cuLibraryGetKernel(&kernel, library, "k"));
    return 0;
  });
}
