#pragma once

#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {

/// Runs `work(driver, address)` for [offset, offset + n) of a variable of device code and remembers an error:
/// cudaErrorInvalidSymbol for a variable that nobody registered, cudaErrorInvalidValue for bytes that it does
/// not have.
template <class Work>
cudaError_t with_variable(bool per_thread, const void* symbol, std::size_t n, std::size_t offset,
                          Work&& work) {
  bool unknown = false;
  const cudaError_t error = try_call(per_thread, [&](const DriverTable& d) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const CUresult result = find_variable(d, symbol, &base, &bytes);
    unknown = result == CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS) return result;
    if (offset > bytes || n > bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    return work(d, reinterpret_cast<char*>(base) + offset);
  });
  return finish(unknown ? cudaErrorInvalidSymbol : error);
}

/// The directions in which a variable can be copied.
inline bool to_variable(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
inline bool from_variable(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

}  // namespace simgpu::runtime
