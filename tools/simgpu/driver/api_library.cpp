#include <algorithm>
#include <string>
#include <vector>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/image_file.h"
#include "tools/simgpu/driver/jit_options.h"
#include "tools/simgpu/driver/kernel_attributes.h"
#include "tools/simgpu/driver/kernel_handles.h"
#include "tools/simgpu/driver/library.h"
#include "tools/simgpu/driver/readable_name.h"

/// "Library Management" of the CUDA driver API, and the CPU bodies of kernels (simgpu/abi.h).
namespace simgpu {
namespace {

/// True if the caller keeps the image; false with *result set for an option that does not exist.
bool preserved_by(const CUlibraryOption* options, unsigned count, CUresult* result) {
  bool preserved = false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS) *result = CUDA_ERROR_INVALID_VALUE;
    preserved = preserved || options[i] == CU_LIBRARY_BINARY_IS_PRESERVED;
  }
  return preserved;
}

bool same_params(const Kernel& kernel, const SimgpuKernelBody& body) {
  return std::equal(
      kernel.params.begin(), kernel.params.end(), body.params, body.params + body.param_count,
      [](const SimgpuParam& a, const SimgpuParam& b) { return a.offset == b.offset && a.size == b.size; });
}

void report_other_params(const Kernel& kernel, const SimgpuKernelBody& body) {
  const auto text = [](const SimgpuParam* params, std::size_t count) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
      if (i != 0) all += ' ';
      all += std::to_string(params[i].offset).append("+").append(std::to_string(params[i].size));
    }
    return all.empty() ? std::string("none") : all;
  };
  report_error("kernel '" + readable_name(kernel.name) +
               "' has other parameters (offset+size: " + text(kernel.params.data(), kernel.params.size()) +
               ") than its CPU body (" + text(body.params, body.param_count) +
               "); it cannot be launched; register the body with the kernel's own parameter types");
}

/// A kernel that only its body knows: of simgpu's own empty image.
Kernel* make_kernel(Driver& d, Library& library, const char* name) {
  std::unique_ptr<Kernel>& kernel = library.kernels[name];
  kernel = std::make_unique<Kernel>();
  kernel->name = name;
  kernel->library = &library;
  d.kernels.emplace(kernel->kernel(), kernel.get());
  d.kernels.emplace(kernel->function(), kernel.get());
  return kernel.get();
}

CUresult set_body(Driver& d, void* handle, const char* name, const SimgpuKernelBody* body) {
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || (body != nullptr && body->struct_bytes < sizeof(SimgpuKernelBody))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Kernel* kernel = nullptr;
  const CUresult found = find_named_kernel(d, handle, name, &kernel);
  if (found == CUDA_ERROR_NOT_FOUND && library->images.empty()) {
    kernel = make_kernel(d, *library, name);
  } else if (found != CUDA_SUCCESS) {
    return found;
  }
  if (body != nullptr && kernel->params_known && !library->images.empty() && !same_params(*kernel, *body)) {
    report_other_params(*kernel, *body);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (body != nullptr) {
    kernel->params.assign(body->params, body->params + body->param_count);
    kernel->params_known = true;
  }
  kernel->body = body;
  return CUDA_SUCCESS;
}

CUresult load_source(Driver& d, const ImageSource& source, CUlibrary* out) {
  Library* library = nullptr;
  const CUresult result = load_library(d, source, nullptr, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(library);
  return result;
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
  if (out == nullptr || code == nullptr || (count > 0 && options == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  static_cast<void>(values);
  CUresult result = take_jit_options(jit_options, jit_values, jit_count);
  ImageSource source;
  source.pointer = code;
  source.preserved = preserved_by(options, count, &result);
  return result == CUDA_SUCCESS ? load_source(d, source, out) : result;
}

SIMGPU_API(cuLibraryLoadFromFile,
           (CUlibrary * out, const char* path, CUjit_option* jit_options, void** jit_values,
            unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
           out, path, jit_options, jit_values, jit_count, options, values, count) {
  if (out == nullptr || path == nullptr || (count > 0 && options == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  static_cast<void>(values);
  CUresult result = take_jit_options(jit_options, jit_values, jit_count);
  // A file's bytes are ours; the driver page allows this option for cuLibraryLoadData alone.
  if (preserved_by(options, count, &result)) result = CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> bytes;
  if (result == CUDA_SUCCESS) result = read_image_file(path, &bytes);
  if (result != CUDA_SUCCESS) return result;
  ImageSource source;
  source.bytes = fatbin::Bytes(bytes.data(), bytes.size());
  return load_source(d, source, out);
}

SIMGPU_API(cuLibraryUnload, (CUlibrary library), library) {
  return unload(d, library, false);
}

SIMGPU_API(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char* name), out, library, name) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = nullptr;
  const CUresult result = find_named_kernel(d, library, name, &kernel);
  if (result == CUDA_SUCCESS) *out = kernel->kernel();
  return result;
}

SIMGPU_API(cuLibraryGetKernelCount, (unsigned* count, CUlibrary library), count, library) {
  return count_kernels(d, library, count);
}

SIMGPU_API(cuLibraryEnumerateKernels, (CUkernel * out, unsigned room, CUlibrary library), out, room,
           library) {
  return list_kernels(d, library, room, out, &Kernel::kernel);
}

SIMGPU_API_CONTEXT(cuLibraryGetModule, (CUmodule * out, CUlibrary handle), out, handle) {
  Library* library = find_library(d, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = load_into(d, context, *library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(handle);
  return result;
}

SIMGPU_API_CONTEXT(cuLibraryGetGlobal, (CUdeviceptr * out, size_t* bytes, CUlibrary handle, const char* name),
                   out, bytes, handle, name) {
  return tell_variable(d, context, handle, name, out, bytes);
}

/// Of the library, not of a context: the documentation has it exist once the library is loaded into one.
SIMGPU_API(cuLibraryGetManaged, (CUdeviceptr * out, size_t* bytes, CUlibrary handle, const char* name), out,
           bytes, handle, name) {
  const Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || (out == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = library->managed.find(name);
  if (found == library->managed.end()) return CUDA_ERROR_NOT_FOUND;
  if (out != nullptr) *out = found->second.address;
  if (bytes != nullptr) *bytes = found->second.size;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuKernelGetFunction, (CUfunction * out, CUkernel handle), out, handle) {
  Kernel* kernel = find_kernel(d, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = load_into(d, context, *kernel->library);
  if (result == CUDA_SUCCESS) *out = kernel->function();
  return result;
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
  const Gpu* gpu = d.gpu_at(dev);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : kernel_attribute(value, attribute, *kernel, *gpu);
}

SIMGPU_API(cuKernelSetAttribute, (CUfunction_attribute attribute, int value, CUkernel handle, CUdevice dev),
           attribute, value, handle, dev) {
  Kernel* kernel = find_kernel(d, handle);
  const Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE
                           : set_kernel_attribute(attribute, value, *gpu, *kernel);
}

SIMGPU_API(cuKernelSetCacheConfig, (CUkernel handle, CUfunc_cache config, CUdevice dev), handle, config,
           dev) {
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  if (d.gpu_at(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return find_kernel(d, handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
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

}  // namespace simgpu
