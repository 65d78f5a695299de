// Modules, libraries, and what functions say of themselves.

#include <dlfcn.h>

#include <cstring>

#include "simgpu/kernel.h"
#include "tests/conformance/device.h"

#define MODULE "CUDA Driver API, Module Management: "
#define LIBRARY "CUDA Driver API, Library Management: "
#define EXECUTION "CUDA Driver API, Execution Control: "

namespace conformance {
namespace {

/// mark(unsigned* out, unsigned value): thread i of one block writes value + i. idle(): nothing.
constexpr const char* kImage = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry mark(.param .u64 mark_param_0, .param .u32 mark_param_1)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [mark_param_0];
  ld.param.u32 %r1, [mark_param_1];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %tid.x;
  add.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r3;
  ret;
}
.visible .entry idle()
{
  ret;
}
)";

struct Mark {
  template <class C>
  static void run(C& c, unsigned* out, unsigned value) {
    c.writes(out, sizeof(unsigned) * c.block_threads());
    c.phase([&](unsigned tid) { out[tid] = value + tid; });
  }
};
struct Idle {
  template <class C>
  static void run(C&) {}
};

/// A simulated device runs no PTX: it is given bodies for the kernels of the image. On hardware nothing
/// happens.
void give_bodies(void* loaded) {
  void* found = ::dlsym(RTLD_DEFAULT, "simgpuLibrarySetBody");
  if (found == nullptr) return;
  const auto set = reinterpret_cast<SimgpuLibrarySetBodyFn>(found);
  EXPECT(set(loaded, "mark", simgpu::kernel_body<Mark, unsigned*, unsigned>()) == 0);
  EXPECT(set(loaded, "idle", simgpu::kernel_body<Idle>()) == 0);
}

CUmodule load_module() {
  CUmodule module = nullptr;
  OK(CU(cuModuleLoadData)(&module, kImage));
  give_bodies(module);
  return module;
}

CUlibrary load_library() {
  CUlibrary library = nullptr;
  OK(CU(cuLibraryLoadData)(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  give_bodies(library);
  return library;
}

CUfunction mark_of(CUmodule module) {
  CUfunction function = nullptr;
  OK(CU(cuModuleGetFunction)(&function, module, "mark"));
  return function;
}

CUkernel kernel_of(CUlibrary library) {
  CUkernel kernel = nullptr;
  OK(CU(cuLibraryGetKernel)(&kernel, library, "mark"));
  return kernel;
}

void expect_runs(CUfunction function, unsigned value) {
  CUdeviceptr out = allocate(4 * kKiB);
  void* params[] = {&out, &value};
  OK(CU(cuLaunchKernel)(function, 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_WORDS(out, 64, value);
}

int function_attribute(CUfunction_attribute which, CUfunction function) {
  int value = -1;
  OK(CU(cuFuncGetAttribute)(&value, which, function));
  return value;
}

}  // namespace

CASE("module.its_functions_run", MODULE "cuModuleLoadData, cuModuleGetFunction") {
  use_device();
  expect_runs(mark_of(load_module()), 5);
}

CASE("module.other_names_are_not_found", MODULE "cuModuleGetFunction") {
  use_device();
  CUfunction function = nullptr;
  REFUSES(CU(cuModuleGetFunction)(&function, load_module(), "no_such_function"), CUDA_ERROR_NOT_FOUND);
}

CASE("module.what_is_no_image_is_refused", MODULE "cuModuleLoadData") {
  use_device();
  CUmodule module = nullptr;
  FAILS(CU(cuModuleLoadData)(&module, "this is neither PTX nor a cubin, and says so at some length"));
}

CASE("module.two_of_one_image_are_two", MODULE "cuModuleLoadData") {
  use_device();
  const CUmodule one = load_module();
  const CUmodule two = load_module();
  EXPECT(one != two && mark_of(one) != mark_of(two));
  OK(CU(cuModuleUnload)(one));
  expect_runs(mark_of(two), 7);
}

CASE("module.a_function_tells_its_module", EXECUTION "cuFuncGetModule, cuFuncGetName") {
  use_device();
  const CUmodule module = load_module();
  CUmodule told = nullptr;
  const char* name = nullptr;
  OK(CU(cuFuncGetModule)(&told, mark_of(module)));
  EXPECT(told == module);
  OK(CU(cuFuncGetName)(&name, mark_of(module)));
  EXPECT_EQ(std::string(name), std::string("mark"));
}

CASE("module.functions_are_counted", MODULE "cuModuleGetFunctionCount") {
  use_device();
  unsigned count = 0;
  OK(CU(cuModuleGetFunctionCount)(&count, load_module()));
  EXPECT_EQ(count, 2u);
}

CASE("module.the_loading_mode_is_told", MODULE "cuModuleGetLoadingMode") {
  use_device();
  CUmoduleLoadingMode mode{};
  OK(CU(cuModuleGetLoadingMode)(&mode));
  EXPECT(mode == CU_MODULE_EAGER_LOADING || mode == CU_MODULE_LAZY_LOADING);
}

CASE("module.options_of_loading_are_taken", MODULE "cuModuleLoadDataEx") {
  use_device();
  CUmodule module = nullptr;
  CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
  void* values[] = {reinterpret_cast<void*>(std::uintptr_t{32})};
  OK(CU(cuModuleLoadDataEx)(&module, kImage, 1, options, values));
  give_bodies(module);
  expect_runs(mark_of(module), 3);
}

CASE("library.it_needs_no_context", LIBRARY "cuLibraryLoadData") {
  OK(CU(cuInit)(0));
  const CUlibrary library = load_library();
  const CUkernel kernel = kernel_of(library);
  use_device();
  expect_runs(reinterpret_cast<CUfunction>(kernel), 4);
}

CASE("library.kernels_are_functions_in_a_context", LIBRARY "cuKernelGetFunction, cuLibraryGetModule") {
  use_device();
  const CUlibrary library = load_library();
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  OK(CU(cuKernelGetFunction)(&function, kernel_of(library)));
  expect_runs(function, 6);
  OK(CU(cuLibraryGetModule)(&module, library));
  expect_runs(mark_of(module), 7);
  REFUSES(CU(cuModuleUnload)(module), CUDA_ERROR_NOT_PERMITTED);
}

CASE("library.kernels_tell_their_library_and_name", LIBRARY "cuKernelGetLibrary, cuKernelGetName") {
  use_device();
  const CUlibrary library = load_library();
  CUlibrary told = nullptr;
  const char* name = nullptr;
  OK(CU(cuKernelGetLibrary)(&told, kernel_of(library)));
  EXPECT(told == library);
  OK(CU(cuKernelGetName)(&name, kernel_of(library)));
  EXPECT_EQ(std::string(name), std::string("mark"));
}

CASE("library.kernels_are_counted_and_listed", LIBRARY "cuLibraryGetKernelCount, cuLibraryEnumerateKernels") {
  use_device();
  const CUlibrary library = load_library();
  unsigned count = 0;
  OK(CU(cuLibraryGetKernelCount)(&count, library));
  EXPECT_EQ(count, 2u);
  CUkernel kernels[2] = {nullptr, nullptr};
  OK(CU(cuLibraryEnumerateKernels)(kernels, 2, library));
  const CUkernel mark = kernel_of(library);
  EXPECT((kernels[0] == mark) != (kernels[1] == mark));
}

CASE("library.other_names_are_not_found", LIBRARY "cuLibraryGetKernel") {
  use_device();
  CUkernel kernel = nullptr;
  REFUSES(CU(cuLibraryGetKernel)(&kernel, load_library(), "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
}

CASE("library.it_is_unloaded", LIBRARY "cuLibraryUnload") {
  use_device();
  const CUlibrary library = load_library();
  expect_runs(reinterpret_cast<CUfunction>(kernel_of(library)), 1);
  OK(CU(cuLibraryUnload)(library));
}

CASE("function.parameters_are_told", EXECUTION "cuFuncGetParamInfo") {
  use_device();
  const CUfunction f = function_of(kMixed);
  const std::size_t want[5][2] = {{0, 8}, {8, 1}, {16, 8}, {24, 2}, {32, 16}};
  for (std::size_t i = 0; i < 5; ++i) {
    std::size_t offset = 99;
    std::size_t size = 99;
    OK(CU(cuFuncGetParamInfo)(f, i, &offset, &size));
    EXPECT_EQ(offset, want[i][0]);
    EXPECT_EQ(size, want[i][1]);
  }
  std::size_t offset = 99;
  OK(CU(cuFuncGetParamInfo)(f, 0, &offset, nullptr));
  REFUSES(CU(cuFuncGetParamInfo)(f, 5, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
}

CASE("function.parameters_of_kernels_are_told", LIBRARY "cuKernelGetParamInfo") {
  use_device();
  const CUkernel kernel = kernel_of(load_library());
  std::size_t offset = 99;
  std::size_t size = 99;
  OK(CU(cuKernelGetParamInfo)(kernel, 1, &offset, &size));
  EXPECT(offset == 8 && size == 4);
  REFUSES(CU(cuKernelGetParamInfo)(kernel, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

CASE("function.attributes_are_told_and_set", EXECUTION "cuFuncGetAttribute, cuFuncSetAttribute") {
  use_device();
  const CUfunction f = function_of(kFill);
  const int threads = function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
  EXPECT(threads >= 32 && threads <= attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EXPECT(function_attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, f) > 0);
  EXPECT(function_attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION, f) >= 75);
  OK(CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
  EXPECT_EQ(function_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f), 4096);
  REFUSES(CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 16), CUDA_ERROR_INVALID_VALUE);
}

CASE("function.attributes_of_kernels_are_told_and_set",
     LIBRARY "cuKernelGetAttribute, cuKernelSetAttribute") {
  use_device();
  const CUkernel kernel = kernel_of(load_library());
  int value = -1;
  OK(CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8192, kernel, 0));
  OK(CU(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
  EXPECT_EQ(value, 8192);
  FAILS(CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_NUM_REGS, 16, kernel, 0));
}

CASE("function.it_is_loaded_once_asked_for", MODULE "cuFuncIsLoaded, cuFuncLoad") {
  use_device();
  const CUfunction f = mark_of(load_module());
  CUfunctionLoadingState state{};
  OK(CU(cuFuncLoad)(f));
  OK(CU(cuFuncIsLoaded)(&state, f));
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
}

CASE("function.the_runtime_tells_the_same", "CUDA Runtime API, Execution Control: cudaFuncGetAttributes") {
  use_device();
  cudaFuncAttributes a{};
  OK(RT(cudaFuncGetAttributes)(&a, kFill));
  EXPECT_EQ(a.maxThreadsPerBlock,
            function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_of(kFill)));
  const char* name = nullptr;
  OK(RT(cudaFuncGetName)(&name, kFill));
  EXPECT(std::strstr(name, "fill_kernel") != nullptr);
  FAILS(RT(cudaFuncGetAttributes)(&a, &a));
}

}  // namespace conformance
