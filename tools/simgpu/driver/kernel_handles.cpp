#include "tools/simgpu/driver/kernel_handles.h"

#include "tools/simgpu/driver/library.h"

namespace simgpu {
namespace {

/// The library with this handle, read.
CUresult read_handle(Driver& d, const void* handle, Library** out) {
  *out = find_library(d, handle);
  return *out == nullptr ? CUDA_ERROR_INVALID_HANDLE : read_library(d, **out);
}

}  // namespace

CUresult find_named_kernel(Driver& d, const void* handle, const char* name, Kernel** out) {
  Library* library = nullptr;
  if (const CUresult read = read_handle(d, handle, &library); read != CUDA_SUCCESS) return read;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto it = library->kernels.find(name);
  if (it == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *out = it->second.get();
  return CUDA_SUCCESS;
}

CUresult count_kernels(Driver& d, const void* handle, unsigned* count) {
  Library* library = nullptr;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult read = read_handle(d, handle, &library); read != CUDA_SUCCESS) return read;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

CUresult list_kernels(Driver& d, const void* handle, unsigned room,
                      const std::function<void(Kernel&)>& take) {
  Library* library = nullptr;
  if (room == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult read = read_handle(d, handle, &library); read != CUDA_SUCCESS) return read;
  for (const auto& [name, kernel] : library->kernels) {
    if (room-- == 0) break;
    take(*kernel);
  }
  return CUDA_SUCCESS;
}

CUresult tell_variable(Driver& d, Context& context, const void* handle, const char* name, CUdeviceptr* out,
                       std::size_t* bytes) {
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || (out == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  const CUresult result = find_variable(d, context, *library, name, &address, &size);
  if (result != CUDA_SUCCESS) return result;
  if (out != nullptr) *out = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult unload(Driver& d, const void* handle, bool as_module) {
  const Library* asked = find_library(d, handle);
  if (asked == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // The module of a library goes with the library.
  if ((asked->owner != nullptr) != as_module)
    return as_module ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_HANDLE;
  d.scheduler.drain(nullptr);
  // Draining can run host functions, without the device lock.
  Library* library = find_library(d, handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unload_library(d, *library);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
