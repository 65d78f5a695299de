// Modules, libraries and kernels: any image loads, any name is a kernel, and each kernel takes two addresses
// and an int. A handle knows which kind it is; the wrong kind is CUDA_ERROR_INVALID_HANDLE.

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "tests/fakes/recording_driver/answers.h"
#include "tests/fakes/recording_driver/faults.h"

namespace tidepool::fakes {
namespace {

enum class Kind { kFunction, kKernel };

struct KernelObject {
  Kind kind;
  std::string name;
  bool is_loaded;
};

constexpr std::size_t kMostKernels = 512;
KernelObject g_kernels[kMostKernels];
std::size_t g_count = 0;
std::mutex g_lock;

KernelObject* get_kernel(Kind kind, const char* name) {
  const std::lock_guard guard(g_lock);
  for (std::size_t i = 0; i < g_count; ++i) {
    if (g_kernels[i].kind == kind && g_kernels[i].name == name) return &g_kernels[i];
  }
  if (g_count == kMostKernels) return nullptr;
  g_kernels[g_count] = {kind, name, false};
  return &g_kernels[g_count++];
}

const KernelObject* object_of(const void* handle) {
  const auto* const object = static_cast<const KernelObject*>(handle);
  return object >= g_kernels && object < g_kernels + kMostKernels ? object : nullptr;
}

template <class Handle>
CUresult give(Handle* out, Kind kind, const char* name) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelObject* const object = get_kernel(kind, name);
  *out = reinterpret_cast<Handle>(object);
  return object != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult load(void** out) {
  static int g_image = 0;
  *out = &g_image;
  return CUDA_SUCCESS;
}
CUresult module_load(CUmodule* out) {
  return load(reinterpret_cast<void**>(out));
}
CUresult library_load(CUlibrary* out) {
  return load(reinterpret_cast<void**>(out));
}

CUresult module_get_function(CUfunction* out, CUmodule, const char* name) {
  return give(out, Kind::kFunction, name);
}
CUresult library_get_kernel(CUkernel* out, CUlibrary, const char* name) {
  return give(out, Kind::kKernel, name);
}
CUresult kernel_get_function(CUfunction* out, CUkernel kernel) {
  const KernelObject* const object = object_of(kernel);
  if (object == nullptr || object->kind != Kind::kKernel) return CUDA_ERROR_INVALID_HANDLE;
  return give(out, Kind::kFunction, object->name.c_str());
}

CUresult name_of(const char** out, const void* handle, Kind kind) {
  const KernelObject* const object = object_of(handle);
  if (object == nullptr || object->kind != kind) return CUDA_ERROR_INVALID_HANDLE;
  *out = object->name.c_str();
  return CUDA_SUCCESS;
}
CUresult func_get_name(const char** out, CUfunction function) {
  return name_of(out, function, Kind::kFunction);
}
CUresult kernel_get_name(const char** out, CUkernel kernel) {
  return name_of(out, kernel, Kind::kKernel);
}

CUresult parameter(std::size_t index, std::size_t* offset, std::size_t* size) {
  constexpr std::size_t kSizes[] = {8, 8, 4};
  if (index >= std::size(kSizes)) return CUDA_ERROR_INVALID_VALUE;
  *offset = 8 * index;
  if (size != nullptr) *size = kSizes[index];
  return CUDA_SUCCESS;
}
CUresult func_get_param_info(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* size) {
  const KernelObject* const object = object_of(function);
  if (object == nullptr || object->kind != Kind::kFunction) return CUDA_ERROR_INVALID_HANDLE;
  if (object->name == faults().function_params) return static_cast<CUresult>(faults().function_params_error);
  if (object->name == faults().no_params) return static_cast<CUresult>(faults().no_params_error);
  return parameter(index, offset, size);
}
CUresult kernel_get_param_info(CUkernel kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  const KernelObject* const object = object_of(kernel);
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (object->name == faults().no_params) return static_cast<CUresult>(faults().no_params_error);
  if (object->kind != Kind::kKernel && object->name != faults().function_params)
    return CUDA_ERROR_INVALID_HANDLE;
  return parameter(index, offset, size);
}

CUresult func_is_loaded(CUfunctionLoadingState* state, CUfunction function) {
  const KernelObject* const object = object_of(function);
  if (object == nullptr || object->kind != Kind::kFunction) return CUDA_ERROR_INVALID_HANDLE;
  *state = object->is_loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}
CUresult module_get_loading_mode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

}  // namespace

std::string_view kernel_name(const void* handle) {
  const KernelObject* const object = object_of(handle);
  return object != nullptr ? std::string_view(object->name) : "";
}

std::span<const NullEntry> kernel_answers() {
  static const NullEntry answers[] = {
      {"cuModuleLoad", reinterpret_cast<void*>(&module_load)},
      {"cuModuleLoadData", reinterpret_cast<void*>(&module_load)},
      {"cuModuleLoadDataEx", reinterpret_cast<void*>(&module_load)},
      {"cuModuleLoadFatBinary", reinterpret_cast<void*>(&module_load)},
      {"cuLibraryLoadData", reinterpret_cast<void*>(&library_load)},
      {"cuLibraryLoadFromFile", reinterpret_cast<void*>(&library_load)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(&module_get_function)},
      {"cuLibraryGetKernel", reinterpret_cast<void*>(&library_get_kernel)},
      {"cuKernelGetFunction", reinterpret_cast<void*>(&kernel_get_function)},
      {"cuFuncGetName", reinterpret_cast<void*>(&func_get_name)},
      {"cuKernelGetName", reinterpret_cast<void*>(&kernel_get_name)},
      {"cuFuncGetParamInfo", reinterpret_cast<void*>(&func_get_param_info)},
      {"cuKernelGetParamInfo", reinterpret_cast<void*>(&kernel_get_param_info)},
      {"cuFuncIsLoaded", reinterpret_cast<void*>(&func_is_loaded)},
      {"cuModuleGetLoadingMode", reinterpret_cast<void*>(&module_get_loading_mode)},
  };
  return answers;
}

}  // namespace tidepool::fakes
