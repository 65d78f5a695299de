#include <vector>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/image_file.h"
#include "tools/simgpu/driver/jit_options.h"
#include "tools/simgpu/driver/kernel_attributes.h"
#include "tools/simgpu/driver/kernel_handles.h"
#include "tools/simgpu/driver/library.h"

/// "Module Management" of the CUDA driver API, and what "Execution Control" says of functions.
namespace simgpu {
namespace {

CUresult load_module(Driver& d, Context& context, const ImageSource& source, CUmodule* out) {
  Library* library = nullptr;
  const CUresult result = load_library(d, source, &context, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(library);
  return result;
}

CUresult load_module(Driver& d, Context& context, const void* image, CUmodule* out) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ImageSource source;
  source.pointer = image;
  return load_module(d, context, source, out);
}

}  // namespace

SIMGPU_API_CONTEXT(cuModuleLoad, (CUmodule * out, const char* path), out, path) {
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> bytes;
  const CUresult result = read_image_file(path, &bytes);
  if (result != CUDA_SUCCESS) return result;
  ImageSource source;
  source.bytes = fatbin::Bytes(bytes.data(), bytes.size());
  return load_module(d, context, source, out);
}

SIMGPU_API_CONTEXT(cuModuleLoadData, (CUmodule * out, const void* image), out, image) {
  return load_module(d, context, image, out);
}

SIMGPU_API_CONTEXT(cuModuleLoadDataEx,
                   (CUmodule * out, const void* image, unsigned count, CUjit_option* options, void** values),
                   out, image, count, options, values) {
  const CUresult taken = take_jit_options(options, values, count);
  return taken != CUDA_SUCCESS ? taken : load_module(d, context, image, out);
}

SIMGPU_API_CONTEXT(cuModuleLoadFatBinary, (CUmodule * out, const void* image), out, image) {
  return load_module(d, context, image, out);
}

SIMGPU_API_CONTEXT(cuModuleUnload, (CUmodule module), module) {
  return unload(d, module, true);
}

SIMGPU_API_CONTEXT(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char* name), out, module,
                   name) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  const CUresult result = find_named_kernel(d, module, name, &kernel);
  if (result == CUDA_SUCCESS) *out = kernel->function();
  return result;
}

SIMGPU_API_CONTEXT(cuModuleGetFunctionCount, (unsigned* count, CUmodule module), count, module) {
  return count_kernels(d, module, count);
}

SIMGPU_API_CONTEXT(cuModuleEnumerateFunctions, (CUfunction * out, unsigned room, CUmodule module), out, room,
                   module) {
  return list_kernels(d, module, room, out, &Kernel::function);
}

SIMGPU_API_CONTEXT(cuModuleGetGlobal_v2,
                   (CUdeviceptr * out, size_t* bytes, CUmodule module, const char* name), out, bytes, module,
                   name) {
  return tell_variable(d, context, module, name, out, bytes);
}

SIMGPU_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = eager_loading() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction handle), value,
                   attribute, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return kernel_attribute(value, attribute, *kernel, *context.gpu);
}

SIMGPU_API_CONTEXT(cuFuncSetAttribute, (CUfunction handle, CUfunction_attribute attribute, int value), handle,
                   attribute, value) {
  Kernel* kernel = find_kernel(d, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return set_kernel_attribute(attribute, value, *context.gpu, *kernel);
}

SIMGPU_API_CONTEXT(cuFuncSetCacheConfig, (CUfunction handle, CUfunc_cache config), handle, config) {
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  return find_kernel(d, handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

SIMGPU_API(cuFuncGetName, (const char** name, CUfunction handle), name, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuFuncGetModule, (CUmodule * out, CUfunction handle), out, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(kernel->library);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuFuncGetParamInfo, (CUfunction handle, size_t index, size_t* offset, size_t* size), handle, index,
           offset, size) {
  const Kernel* kernel = find_kernel(d, handle);
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : param_info(*kernel, index, offset, size);
}

SIMGPU_API_CONTEXT(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction handle), state, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = kernel->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuFuncLoad, (CUfunction handle), handle) {
  Kernel* kernel = find_kernel(d, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = load_into(d, context, *kernel->library);
  kernel->loaded = kernel->loaded || result == CUDA_SUCCESS;
  return result;
}

}  // namespace simgpu
