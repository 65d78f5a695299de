#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"

/// "Library Management" of the CUDA runtime API.

namespace simgpu::runtime {

SIMGPU_FORWARD(cudaLibraryLoadData,
               (cudaLibrary_t * library, const void* code, cudaJitOption* jit, void** jit_values,
                unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
               d.cuLibraryLoadData(library, code, same<CUjit_option>(jit), jit_values, jit_count,
                                   same<CUlibraryOption>(options), values, count))
SIMGPU_FORWARD(cudaLibraryLoadFromFile,
               (cudaLibrary_t * library, const char* file, cudaJitOption* jit, void** jit_values,
                unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
               d.cuLibraryLoadFromFile(library, file, same<CUjit_option>(jit), jit_values, jit_count,
                                       same<CUlibraryOption>(options), values, count))
SIMGPU_FORWARD(cudaLibraryUnload, (cudaLibrary_t library), d.cuLibraryUnload(library))

SIMGPU_RUNTIME(cudaLibraryGetKernel, (cudaKernel_t * kernel, cudaLibrary_t library, const char* name)) {
  return call(false, [&](const DriverTable& d) {
    const CUresult result = d.cuLibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS) add_kernel(*kernel);
    return result;
  });
}

SIMGPU_FORWARD(cudaLibraryGetKernelCount, (unsigned* count, cudaLibrary_t library),
               d.cuLibraryGetKernelCount(count, library))

SIMGPU_RUNTIME(cudaLibraryEnumerateKernels, (cudaKernel_t * kernels, unsigned count, cudaLibrary_t library)) {
  return call(false, [&](const DriverTable& d) {
    unsigned found = 0;
    CUresult result = d.cuLibraryGetKernelCount(&found, library);
    if (result == CUDA_SUCCESS) result = d.cuLibraryEnumerateKernels(kernels, count, library);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count && i < found; ++i) add_kernel(kernels[i]);
    return result;
  });
}

SIMGPU_FORWARD(cudaLibraryGetGlobal, (void** at, size_t* bytes, cudaLibrary_t library, const char* name),
               d.cuLibraryGetGlobal(same<CUdeviceptr>(at), bytes, library, name))
SIMGPU_FORWARD(cudaLibraryGetManaged, (void** at, size_t* bytes, cudaLibrary_t library, const char* name),
               d.cuLibraryGetManaged(same<CUdeviceptr>(at), bytes, library, name))
SIMGPU_FORWARD(cudaLibraryGetUnifiedFunction, (void** function, cudaLibrary_t library, const char* symbol),
               d.cuLibraryGetUnifiedFunction(function, library, symbol))

}  // namespace simgpu::runtime
