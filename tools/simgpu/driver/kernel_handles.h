#pragma once

#include <functional>

#include "tools/simgpu/driver/driver.h"

namespace simgpu {

/// The library or module with this handle, or null. A library and the module of it in a context are one.
inline Library* find_library(Driver& d, const void* handle) {
  const auto it = d.libraries.find(static_cast<CUlibrary>(const_cast<void*>(handle)));
  return it == d.libraries.end() ? nullptr : it->second.get();
}

/// The kernel with this CUkernel or CUfunction, or null.
inline Kernel* find_kernel(const Driver& d, const void* handle) {
  const auto it = d.kernels.find(handle);
  return it == d.kernels.end() ? nullptr : it->second;
}

/// The kernel of this name in a library or module. CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_FOUND, and what
/// reading the image says.
CUresult find_named_kernel(Driver& d, const void* handle, const char* name, Kernel** out);

/// How many kernels a library or module has, and the first `room` of them, by name.
CUresult count_kernels(Driver& d, const void* handle, unsigned* count);
CUresult list_kernels(Driver& d, const void* handle, unsigned room, const std::function<void(Kernel&)>& take);
/// The same into an array, as the kind of handle that `as` makes.
template <class Handle>
CUresult list_kernels(Driver& d, const void* handle, unsigned room, Handle* out, Handle (Kernel::*as)()) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return list_kernels(d, handle, room, [&](Kernel& kernel) { *out++ = (kernel.*as)(); });
}

/// Address and size of a variable of a library or module in a context; one of the two may be null.
CUresult tell_variable(Driver& d, Context& context, const void* handle, const char* name, CUdeviceptr* out,
                       std::size_t* bytes);

/// Waits for the device and unloads. `as_module` says which kind of handle it must be.
CUresult unload(Driver& d, const void* handle, bool as_module);

}  // namespace simgpu
