// Finding entry points, and the texts of errors.

#include <cstring>

#include "tests/conformance/device.h"

#define ACCESS "CUDA Driver API, Driver Entry Point Access: cuGetProcAddress"
#define ERRORS "CUDA Driver API, Error Handling: "

namespace conformance {
namespace {

struct Found {
  CUresult result = CUDA_ERROR_UNKNOWN;
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Found look_up(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Found found;
  found.function = &found;
  found.result = CU(cuGetProcAddress)(name, &found.function, version, flags, &found.status);
  return found;
}

}  // namespace

CASE("entry.a_name_gives_a_function_that_works", ACCESS) {
  const Found found = look_up("cuDriverGetVersion", 13000);
  OK(found.result);
  EXPECT(found.status == CU_GET_PROC_ADDRESS_SUCCESS && found.function != nullptr);
  int version = 0;
  int same = 0;
  OK(reinterpret_cast<decltype(&cuDriverGetVersion)>(found.function)(&version));
  OK(CU(cuDriverGetVersion)(&same));
  EXPECT_EQ(version, same);
}

CASE("entry.an_unknown_name_is_no_error_but_a_null_pointer", ACCESS) {
  for (const char* name : {"cuNoSuchFunction", "cuMemAlloc_v2", ""}) {
    const Found found = look_up(name, 13000);
    OK(found.result);
    EXPECT(found.function == nullptr);
    EXPECT(found.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
}

CASE("entry.a_function_newer_than_the_version_is_not_given", ACCESS) {
  const Found found = look_up("cuMemMap", 9000);
  OK(found.result);
  EXPECT(found.function == nullptr);
  EXPECT(found.status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT(look_up("cuMemMap", 10020).function != nullptr);
}

CASE("entry.a_version_newer_than_the_driver_is_refused", ACCESS) {
  int version = 0;
  OK(CU(cuDriverGetVersion)(&version));
  REFUSES(look_up("cuInit", version + 10).result, CUDA_ERROR_INVALID_VALUE);
  OK(look_up("cuInit", version).result);
}

CASE("entry.the_version_chooses_among_the_forms_of_a_function", ACCESS) {
  const Found old_form = look_up("cuCtxCreate", 11000);
  const Found new_form = look_up("cuCtxCreate", 13000);
  EXPECT(old_form.function != nullptr && new_form.function != nullptr);
  EXPECT(old_form.function != new_form.function);
  EXPECT(look_up("cuEventElapsedTime", 12000).function != look_up("cuEventElapsedTime", 13000).function);
  EXPECT(look_up("cuGetProcAddress", 11030).function != look_up("cuGetProcAddress", 12000).function);
}

CASE("entry.per_thread_forms_are_given_on_request", ACCESS) {
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  for (const char* name : {"cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemsetD8", "cuStreamSynchronize"}) {
    const Found legacy = look_up(name, 13000, kLegacy);
    const Found per_thread = look_up(name, 13000, kPerThread);
    EXPECT(legacy.function != nullptr && per_thread.function != nullptr);
    EXPECT(legacy.function != per_thread.function);
    EXPECT(look_up(name, 13000).function == legacy.function);
  }
  EXPECT(look_up("cuMemAlloc", 13000, kPerThread).function == look_up("cuMemAlloc", 13000, kLegacy).function);
}

CASE("entry.the_status_may_be_left_out", ACCESS) {
  void* function = nullptr;
  OK(CU(cuGetProcAddress)("cuInit", &function, 13000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  EXPECT(function != nullptr);
  OK(CU(cuGetProcAddress)("cuNoSuchFunction", &function, 13000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  EXPECT(function == nullptr);
}

CASE("entry.the_runtime_gives_the_drivers_functions",
     "CUDA Runtime API, Driver Entry Point Access: cudaGetDriverEntryPointByVersion") {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  OK(RT(cudaGetDriverEntryPointByVersion)("cuMemAlloc", &function, 12000, cudaEnableLegacyStream, &status));
  EXPECT(status == cudaDriverEntryPointSuccess);
  EXPECT(function == look_up("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM).function);
  OK(RT(cudaGetDriverEntryPointByVersion)("cuNoSuchFunction", &function, 12000, cudaEnableDefault, &status));
  EXPECT(status == cudaDriverEntryPointSymbolNotFound && function == nullptr);
}

CASE("error.names_and_texts_of_the_driver", ERRORS "cuGetErrorName, cuGetErrorString") {
  const char* text = nullptr;
  OK(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_EQ(std::string(text), std::string("CUDA_ERROR_OUT_OF_MEMORY"));
  OK(CU(cuGetErrorName)(CUDA_SUCCESS, &text));
  EXPECT_EQ(std::string(text), std::string("CUDA_SUCCESS"));
  OK(CU(cuGetErrorString)(CUDA_ERROR_NOT_READY, &text));
  EXPECT(text != nullptr && std::strlen(text) > 0);
}

CASE("error.unknown_codes_have_no_name", ERRORS "cuGetErrorName, cuGetErrorString") {
  const char* text = "x";
  REFUSES(CU(cuGetErrorName)(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT(text == nullptr);
  text = "x";
  REFUSES(CU(cuGetErrorString)(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT(text == nullptr);
}

CASE("error.names_and_texts_of_the_runtime", "CUDA Runtime API, Error Handling: cudaGetErrorName") {
  EXPECT_EQ(std::string(RT(cudaGetErrorName)(cudaErrorMemoryAllocation)),
            std::string("cudaErrorMemoryAllocation"));
  EXPECT_EQ(std::string(RT(cudaGetErrorName)(cudaSuccess)), std::string("cudaSuccess"));
  EXPECT(std::strlen(RT(cudaGetErrorString)(cudaErrorInvalidValue)) > 0);
  EXPECT_EQ(std::string(RT(cudaGetErrorName)(static_cast<cudaError_t>(12345))),
            std::string("unrecognized error code"));
}

CASE("error.the_last_error_is_taken_once",
     "CUDA Runtime API, Error Handling: cudaGetLastError, cudaPeekAtLastError") {
  OK(RT(cudaGetLastError)());
  REFUSES(RT(cudaSetDevice)(-1), cudaErrorInvalidDevice);
  REFUSES(RT(cudaPeekAtLastError)(), cudaErrorInvalidDevice);
  REFUSES(RT(cudaGetLastError)(), cudaErrorInvalidDevice);
  OK(RT(cudaGetLastError)());
  OK(RT(cudaPeekAtLastError)());
}

CASE("error.a_call_that_succeeds_keeps_the_last_error",
     "CUDA Runtime API, Error Handling: cudaGetLastError") {
  void* memory = nullptr;
  REFUSES(RT(cudaSetDevice)(-1), cudaErrorInvalidDevice);
  OK(RT(cudaMalloc)(&memory, 64));
  OK(RT(cudaFree)(memory));
  REFUSES(RT(cudaGetLastError)(), cudaErrorInvalidDevice);
}

CASE("error.driver_calls_leave_the_runtimes_last_error_alone",
     "CUDA Runtime API, Error Handling: cudaGetLastError") {
  use_device();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  OK(RT(cudaGetLastError)());
}

}  // namespace conformance
