#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "tools/simgpu/driver/api.h"

/// "Library Management" and "Module Management" of the CUDA driver API. Images are not read: which kernels a
/// library has, and their bodies, comes from simgpuLibrarySetBody.
namespace simgpu {
namespace {

/// An ELF cubin, a fat binary with or without its wrapper, PTX text, or simgpu's own empty image.
bool plausible_image(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  constexpr std::array<std::uint32_t, 3> kMagics{0x464c457f, 0xba55ed50, 0x466243b1};
  if (std::find(kMagics.begin(), kMagics.end(), magic) != kMagics.end()) return true;
  const auto* text = static_cast<const char*>(image);
  return std::strncmp(text, "//", 2) == 0 || std::strncmp(text, ".version", 8) == 0 ||
         std::strcmp(text, "simgpu") == 0;
}

CUresult load(Driver& d, const void* image, bool is_module, Library** out) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!plausible_image(image)) return CUDA_ERROR_INVALID_IMAGE;
  auto library = std::make_unique<Library>();
  library->is_module = is_module;
  *out = library.get();
  d.libraries.emplace(reinterpret_cast<CUlibrary>(library.get()), std::move(library));
  return CUDA_SUCCESS;
}

/// A CUlibrary and a CUmodule of it are the same object.
Library* find_library(Driver& d, const void* handle) {
  const auto it = d.libraries.find(static_cast<CUlibrary>(const_cast<void*>(handle)));
  return it == d.libraries.end() ? nullptr : it->second.get();
}

Kernel* find_kernel(Driver& d, const void* handle) {
  const auto it = d.kernels.find(handle);
  return it == d.kernels.end() ? nullptr : it->second;
}

CUresult unload(Driver& d, const void* handle, bool is_module) {
  const Library* asked = find_library(d, handle);
  if (asked == nullptr || asked->is_module != is_module) return CUDA_ERROR_INVALID_HANDLE;
  d.scheduler.drain(nullptr);
  // Draining can run host functions, without the device lock.
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& [name, kernel] : library->kernels) {
    d.kernels.erase(kernel->kernel());
    d.kernels.erase(kernel->function());
  }
  d.libraries.erase(reinterpret_cast<CUlibrary>(library));
  return CUDA_SUCCESS;
}

CUresult named_kernel(Driver& d, const void* handle, const char* name, Kernel** out) {
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto it = library->kernels.find(name);
  if (it == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = it->second.get();
  return CUDA_SUCCESS;
}

CUresult set_body(Driver& d, void* handle, const char* name, const SimgpuKernelBody* body) {
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || (body != nullptr && body->struct_bytes < sizeof(SimgpuKernelBody))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::unique_ptr<Kernel>& kernel = library->kernels[name];
  if (kernel == nullptr) {
    kernel = std::make_unique<Kernel>();
    kernel->name = name;
    kernel->library = library;
    d.kernels.emplace(kernel->kernel(), kernel.get());
    d.kernels.emplace(kernel->function(), kernel.get());
  }
  kernel->body = body;
  return CUDA_SUCCESS;
}

CUresult get_attribute(int* value, CUfunction_attribute attribute, const Gpu& gpu, const Kernel& kernel) {
  const int binary = gpu.config.compute_major * 10 + gpu.config.compute_minor;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = binary;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kernel.max_dynamic_shared;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kernel.carveout;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = kernel.non_portable_cluster;
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction_attribute attribute, int value, Kernel& kernel) {
  constexpr int kMaxDynamicShared = 227 << 10;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > kMaxDynamicShared) return CUDA_ERROR_INVALID_VALUE;
      kernel.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      kernel.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      kernel.non_portable_cluster = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult param_info(const Kernel& kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (offset == nullptr || kernel.body == nullptr || index >= kernel.body->param_count)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.body->params[index].offset;
  if (size != nullptr) *size = kernel.body->params[index].size;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" SIMGPU_EXPORT int simgpuLibrarySetBody(void* library, const char* name,
                                                  const SimgpuKernelBody* body) {
  return enter(Entry::simgpuLibrarySetBody, 0, [&](Driver& d) { return set_body(d, library, name, body); });
}

SIMGPU_API(cuLibraryLoadData,
           (CUlibrary * out, const void* code, CUjit_option* jit_options, void** jit_values,
            unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
           out, code, jit_options, jit_values, jit_count, options, values, count) {
  if (out == nullptr || (count > 0 && options == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  static_cast<void>(jit_options);
  static_cast<void>(jit_values);
  static_cast<void>(jit_count);
  static_cast<void>(values);
  Library* library = nullptr;
  const CUresult result = load(d, code, false, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(library);
  return result;
}

SIMGPU_API(cuLibraryUnload, (CUlibrary library), library) {
  return unload(d, library, false);
}

SIMGPU_API(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char* name), out, library, name) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  const CUresult result = named_kernel(d, library, name, &kernel);
  if (result == CUDA_SUCCESS) *out = kernel->kernel();
  return result;
}

SIMGPU_API_CONTEXT(cuLibraryGetModule, (CUmodule * out, CUlibrary library), out, library) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_library(d, library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuKernelGetFunction, (CUfunction * out, CUkernel handle), out, handle) {
  Kernel* kernel = find_kernel(d, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = kernel->function();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuKernelGetLibrary, (CUlibrary * out, CUkernel handle), out, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuKernelGetAttribute, (int* value, CUfunction_attribute attribute, CUkernel handle, CUdevice dev),
           value, attribute, handle, dev) {
  const Kernel* kernel = find_kernel(d, handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : get_attribute(value, attribute, *gpu, *kernel);
}

SIMGPU_API(cuKernelSetAttribute, (CUfunction_attribute attribute, int value, CUkernel handle, CUdevice dev),
           attribute, value, handle, dev) {
  Kernel* kernel = find_kernel(d, handle);
  if (d.gpu_at(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : set_attribute(attribute, value, *kernel);
}

SIMGPU_API(cuKernelGetName, (const char** name, CUkernel handle), name, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuKernelGetParamInfo, (CUkernel handle, size_t index, size_t* offset, size_t* size), handle, index,
           offset, size) {
  const Kernel* kernel = find_kernel(d, handle);
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : param_info(*kernel, index, offset, size);
}

SIMGPU_API_CONTEXT(cuModuleLoadData, (CUmodule * out, const void* image), out, image) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Library* library = nullptr;
  const CUresult result = load(d, image, true, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(library);
  return result;
}

SIMGPU_API_CONTEXT(cuModuleLoadFatBinary, (CUmodule * out, const void* image), out, image) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Library* library = nullptr;
  const CUresult result = load(d, image, true, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(library);
  return result;
}

SIMGPU_API_CONTEXT(cuModuleUnload, (CUmodule module), module) {
  // The module of a library goes with the library.
  const Library* asked = find_library(d, module);
  if (asked != nullptr && !asked->is_module) return CUDA_ERROR_NOT_PERMITTED;
  return unload(d, module, true);
}

SIMGPU_API_CONTEXT(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char* name), out, module,
                   name) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  const CUresult result = named_kernel(d, module, name, &kernel);
  if (result == CUDA_SUCCESS) *out = kernel->function();
  return result;
}

SIMGPU_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction handle), value,
                   attribute, handle) {
  const Kernel* kernel = find_kernel(d, handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE
                           : get_attribute(value, attribute, *context.gpu, *kernel);
}

SIMGPU_API_CONTEXT(cuFuncSetAttribute, (CUfunction handle, CUfunction_attribute attribute, int value), handle,
                   attribute, value) {
  Kernel* kernel = find_kernel(d, handle);
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : set_attribute(attribute, value, *kernel);
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

}  // namespace simgpu
