#include "tools/probe/doors/layout_question.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "shim/real_driver.h"

namespace tidepool::doors {
namespace {

// Longest parameter list that is walked: 32 KiB of parameters, a byte each.
constexpr std::size_t kMostParameters = std::size_t{32} << 10;

/// The entries that only this question needs.
struct Entries {
  decltype(&::cuKernelGetName) kernel_get_name;
  decltype(&::cuKernelGetFunction) kernel_get_function;
  decltype(&::cuFuncIsLoaded) func_is_loaded;
  decltype(&::cuModuleGetLoadingMode) module_get_loading_mode;
  bool asks_function;
  bool asks_kernel;
};

const Entries& entries() noexcept {
  static const Entries found = [] {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const auto find = [driver](auto& function, const char* name) {
      void* const at = driver != nullptr ? shim::real_dlsym(driver, name) : nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(at);
    };
    Entries all{};
    find(all.kernel_get_name, "cuKernelGetName");
    find(all.kernel_get_function, "cuKernelGetFunction");
    find(all.func_is_loaded, "cuFuncIsLoaded");
    find(all.module_get_loading_mode, "cuModuleGetLoadingMode");
    const char* const wanted = std::getenv("TIDEPOOL_COUNT_ASK");
    const std::string_view ask = wanted != nullptr ? wanted : "both";
    all.asks_function = ask != "none";
    all.asks_kernel = ask == "both";
    return all;
  }();
  return found;
}

template <class Get, class Handle>
LayoutAnswer::Parameters parameters(Get* get, Handle handle) noexcept {
  LayoutAnswer::Parameters found;
  if (get == nullptr) return found;
  for (std::size_t i = 0; i < kMostParameters; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = get(handle, i, &offset, &size);
    if (i == 0) found.result = static_cast<int>(result);
    if (result != CUDA_SUCCESS) {
      found.end = static_cast<int>(result);
      break;
    }
    ++found.count;
    if (offset + size > found.bytes) found.bytes = offset + size;
  }
  return found;
}

int is_loaded(CUfunction handle) noexcept {
  if (entries().func_is_loaded == nullptr) return LayoutAnswer::kNotAsked;
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  const CUresult result = entries().func_is_loaded(&state, handle);
  return result == CUDA_SUCCESS ? static_cast<int>(state) : -static_cast<int>(result);
}

}  // namespace

LayoutAnswer ask_layout(CUfunction handle) noexcept {
  const shim::RealDriver& driver = shim::active_driver();
  const Entries& own = entries();
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  LayoutAnswer answer;
  if (own.asks_function) {
    answer.loaded_before = is_loaded(handle);
    answer.by_function = parameters(driver.cuFuncGetParamInfo, handle);
    if (driver.cuFuncGetName != nullptr)
      answer.function_name = static_cast<int>(driver.cuFuncGetName(&answer.name, handle));
    if (answer.function_name != CUDA_SUCCESS) answer.name = nullptr;
  }
  if (own.asks_kernel) {
    answer.by_kernel = parameters(driver.cuKernelGetParamInfo, kernel);
    const char* name = nullptr;
    if (own.kernel_get_name != nullptr)
      answer.kernel_name = static_cast<int>(own.kernel_get_name(&name, kernel));
    if (answer.name == nullptr && answer.kernel_name == CUDA_SUCCESS) answer.name = name;
  }
  if (own.asks_function) answer.loaded_after = is_loaded(handle);
  if (own.asks_kernel) {  // the last: it may load the kernel
    CUfunction function = nullptr;
    if (own.kernel_get_function != nullptr)
      answer.kernel_function = static_cast<int>(own.kernel_get_function(&function, kernel));
  }
  return answer;
}

const char* loading_mode() noexcept {
  CUmoduleLoadingMode mode{};
  if (entries().module_get_loading_mode == nullptr ||
      entries().module_get_loading_mode(&mode) != CUDA_SUCCESS) {
    return "";
  }
  return mode == CU_MODULE_LAZY_LOADING ? "lazy" : "eager";
}

}  // namespace tidepool::doors
