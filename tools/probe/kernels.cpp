#include "tools/probe/kernels.h"

/// The fat binary made of kernels.cu (tp_cuda_image).
extern "C" __attribute__((visibility("hidden"))) const unsigned char
    tp_probe_kernel_image[];  // NOLINT(readability-identifier-naming): a symbol of the assembler's

namespace tidepool::probe {
namespace {

/// The CPU body for a kernel with these parameters.
template <class Body, class... P>
const SimgpuKernelBody* body_for(void (* /*signature*/)(P...)) {
  return simgpu::kernel_body<Body, P...>();
}

CUfunction find_function(CUmodule module, const char* name, const SimgpuKernelBody* body) {
  if (cu().set_kernel_body != nullptr) {
    const int set = cu().set_kernel_body(module, name, body);
    if (set != CUDA_SUCCESS) throw DriverError("simgpuLibrarySetBody", static_cast<CUresult>(set));
  }
  CUfunction function = nullptr;
  TP_CU(cuModuleGetFunction, &function, module, name);
  return function;
}

}  // namespace

Kernels load_kernels() {
  CUmodule module = nullptr;
  TP_CU(cuModuleLoadData, &module, static_cast<const void*>(tp_probe_kernel_image));
  Kernels kernels;
#define TP_PROBE_KERNEL(name, Body, params, ...) \
  kernels.name = Kernel<void params>(            \
      find_function(module, "tidepool_probe_" #name, body_for<Body>(static_cast<void(*) params>(nullptr))));
#include "tools/probe/kernels.def"
  return kernels;
}

void launch_function(CUfunction function, const Launch& how, void** params) {
  if (!how.programmatic) {
    TP_CU(cuLaunchKernel, function, how.blocks, how.blocks_y, 1, how.threads, how.threads_y, 1, 0, how.stream,
          params, nullptr);
    return;
  }
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = how.blocks;
  config.gridDimY = how.blocks_y;
  config.gridDimZ = 1;
  config.blockDimX = how.threads;
  config.blockDimY = how.threads_y;
  config.blockDimZ = 1;
  config.hStream = how.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  TP_CU(cuLaunchKernelEx, &config, function, params, nullptr);
}

}  // namespace tidepool::probe
