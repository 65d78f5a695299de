// __managed__ variables.

#include <algorithm>

#include "tests/conformance/device.h"

#define SPECIFIER "CUDA C++ Programming Guide, __managed__ Memory Space Specifier"
#define LIBRARY "CUDA Driver API, Library Management: "

namespace conformance {
namespace {

/// kept: a managed word that starts as 42. other: a plain one.
constexpr const char* kImage = R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 kept = 42;
.visible .global .align 4 .u32 other = 1;
.visible .entry touch(.param .u64 touch_param_0)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [touch_param_0];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [kept];
  ld.global.u32 %r2, [other];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

CUcontext use_managed() {
  const CUcontext context = use_device();
  need(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed memory");
  return context;
}

void add_to_managed(unsigned by) {
  void* params[] = {&by};
  launch(kAddToManaged, 1, nullptr, params);
  OK(CU(cuCtxSynchronize)());
}

bool words_are(unsigned first, unsigned second, unsigned third, unsigned fourth) {
  const unsigned want[] = {first, second, third, fourth};
  return std::equal(std::begin(want), std::end(want), managed_words());
}

CUlibrary loaded_library() {
  CUlibrary library = nullptr;
  CUmodule module = nullptr;
  OK(CU(cuLibraryLoadData)(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(CU(cuLibraryGetModule)(&module, library));
  return library;
}

}  // namespace

CASE("managed.a_variable_starts_with_its_value", SPECIFIER) {
  use_managed();
  EXPECT(words_are(3, 4, 5, 6));
}

CASE("managed.host_and_device_share_a_variable", SPECIFIER) {
  use_managed();
  managed_words()[1] = 100;
  add_to_managed(5);
  EXPECT(words_are(8, 105, 10, 11));
  managed_words()[3] = 0;
  add_to_managed(1);
  EXPECT(words_are(9, 106, 11, 1));
}

CASE("managed.a_kernel_may_use_a_variable_first", SPECIFIER) {
  use_managed();
  add_to_managed(7);
  EXPECT(words_are(10, 11, 12, 13));
}

CASE("managed.a_variable_needs_no_cuda_call_before_it", SPECIFIER) {
  int managed = 0;
  OK(RT(cudaDeviceGetAttribute)(&managed, cudaDevAttrManagedMemory, 0));
  if (managed == 0) skip("the device has no managed memory");
  EXPECT(words_are(3, 4, 5, 6));
  managed_words()[0] = 1;
  use_managed();
  add_to_managed(1);
  EXPECT(words_are(2, 5, 6, 7));
}

CASE("managed.kernels_take_the_address_of_a_variable", SPECIFIER) {
  use_managed();
  affine(reinterpret_cast<CUdeviceptr>(managed_words()), kManagedWords, 2, 1);
  OK(CU(cuCtxSynchronize)());
  EXPECT(words_are(7, 9, 11, 13));
}

CASE("managed.a_variable_is_a_symbol",
     "CUDA Runtime API, Memory Management: cudaGetSymbolAddress, cudaMemcpyToSymbol") {
  use_managed();
  unsigned* const words = managed_words();
  void* address = nullptr;
  std::size_t bytes = 0;
  OK(RT(cudaGetSymbolAddress)(&address, words));
  EXPECT(address == words);
  OK(RT(cudaGetSymbolSize)(&bytes, words));
  EXPECT_EQ(bytes, kManagedWords * sizeof(unsigned));
  const unsigned in[] = {70, 71};
  OK(RT(cudaMemcpyToSymbol)(words, in, sizeof in, sizeof(unsigned), cudaMemcpyHostToDevice));
  unsigned out[kManagedWords] = {};
  OK(RT(cudaMemcpyFromSymbol)(out, words, sizeof out, 0, cudaMemcpyDeviceToHost));
  EXPECT(out[0] == 3 && out[1] == 70 && out[2] == 71 && out[3] == 6);
  OK(CU(cuCtxSynchronize)());
  EXPECT(words_are(3, 70, 71, 6));
  FAILS(RT(cudaMemcpyToSymbol)(words, in, sizeof in, bytes, cudaMemcpyHostToDevice));
}

CASE("managed.a_variable_is_managed_memory", SPECIFIER "; Unified Addressing: cuPointerGetAttribute") {
  use_managed();
  const auto address = reinterpret_cast<CUdeviceptr>(managed_words());
  unsigned managed = 0;
  OK(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  EXPECT_EQ(managed, 1u);
  cudaPointerAttributes told{};
  OK(RT(cudaPointerGetAttributes)(&told, managed_words()));
  EXPECT_EQ(told.type, cudaMemoryTypeManaged);
}

CASE("managed.a_library_tells_its_managed_memory", LIBRARY "cuLibraryGetManaged") {
  use_managed();
  const CUlibrary library = loaded_library();
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  OK(CU(cuLibraryGetManaged)(&address, &bytes, library, "kept"));
  EXPECT_EQ(bytes, sizeof(unsigned));
  EXPECT_EQ(*reinterpret_cast<unsigned*>(address), 42u);
  CUdeviceptr again = 0;
  OK(CU(cuLibraryGetManaged)(&again, nullptr, library, "kept"));
  EXPECT_EQ(again, address);
  bytes = 0;
  OK(CU(cuLibraryGetManaged)(nullptr, &bytes, library, "kept"));
  EXPECT_EQ(bytes, sizeof(unsigned));
}

CASE("managed.other_names_of_a_library_are_not_found", LIBRARY "cuLibraryGetManaged") {
  use_managed();
  const CUlibrary library = loaded_library();
  CUdeviceptr address = 0;
  REFUSES(CU(cuLibraryGetManaged)(&address, nullptr, library, "other"), CUDA_ERROR_NOT_FOUND);
  REFUSES(CU(cuLibraryGetManaged)(&address, nullptr, library, "touch"), CUDA_ERROR_NOT_FOUND);
  REFUSES(CU(cuLibraryGetManaged)(nullptr, nullptr, library, "kept"), CUDA_ERROR_INVALID_VALUE);
}

CASE("managed.a_library_takes_its_variables_along", LIBRARY "cuLibraryUnload") {
  use_managed();
  const CUlibrary library = loaded_library();
  CUdeviceptr address = 0;
  OK(CU(cuLibraryGetManaged)(&address, nullptr, library, "kept"));
  *reinterpret_cast<unsigned*>(address) = 7;
  OK(CU(cuLibraryUnload)(library));
  OK(CU(cuLibraryGetManaged)(&address, nullptr, loaded_library(), "kept"));
  EXPECT_EQ(*reinterpret_cast<unsigned*>(address), 42u);
}

CASE("managed.a_module_tells_a_variable_as_a_global",
     "CUDA Driver API, Module Management: cuModuleGetGlobal") {
  use_managed();
  CUmodule module = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  OK(CU(cuModuleLoadData)(&module, kImage));
  OK(CU(cuModuleGetGlobal)(&address, &bytes, module, "kept"));
  EXPECT_EQ(bytes, sizeof(unsigned));
  EXPECT_EQ(read_word(address), 42u);
  *reinterpret_cast<unsigned*>(address) = 8;
  EXPECT_EQ(read_word(address), 8u);
}

}  // namespace conformance
