#include "tools/simgpu/runtime/node_params.h"

#include <cstddef>
#include <cstring>

#include "tools/simgpu/runtime/copy_params.h"
#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

/// The structures of one kernel node differ in their names only.
template <class Runtime, class Driver>
CUresult convert_kernel(const DriverTable& d, const Runtime& in, Driver* out) {
  CUkernel kernel = nullptr;
  const CUresult result = find_kernel(d, in.func, &kernel);
  if (result != CUDA_SUCCESS) return result;
  *out = {};
  out->kern = kernel;
  out->gridDimX = in.gridDim.x;
  out->gridDimY = in.gridDim.y;
  out->gridDimZ = in.gridDim.z;
  out->blockDimX = in.blockDim.x;
  out->blockDimY = in.blockDim.y;
  out->blockDimZ = in.blockDim.z;
  out->sharedMemBytes = in.sharedMemBytes;
  out->kernelParams = in.kernelParams;
  out->extra = in.extra;
  return CUDA_SUCCESS;
}

CUresult convert_memset(const DriverTable& d, const cudaMemsetParamsV2& in, CUDA_MEMSET_NODE_PARAMS_v2* out) {
  *out = {device_address(in.dst), in.pitch, in.value, in.elementSize, in.width, in.height, nullptr};
  return d.cuCtxGetCurrent(&out->ctx);
}

CUresult convert_copy(const DriverTable& d, const cudaMemcpyNodeParams& in, CUDA_MEMCPY_NODE_PARAMS* out) {
  *out = {};
  out->flags = in.flags;
  const auto result = static_cast<CUresult>(slices(&in.copyParams, &out->copyParams));
  return result == CUDA_SUCCESS ? d.cuCtxGetCurrent(&out->copyCtx) : result;
}

CUresult convert_condition(const DriverTable& d, const cudaConditionalNodeParams& in,
                           CUDA_CONDITIONAL_NODE_PARAMS* out) {
  *out = {};
  out->handle = in.handle;
  out->type = static_cast<CUgraphConditionalNodeType>(in.type);
  out->size = in.size;
  return d.cuCtxGetCurrent(&out->ctx);
}

}  // namespace

CUresult kernel_params(const DriverTable& d, const cudaKernelNodeParams* in, CUDA_KERNEL_NODE_PARAMS* out) {
  return in == nullptr ? CUDA_ERROR_INVALID_VALUE : convert_kernel(d, *in, out);
}

void kernel_params_back(const CUDA_KERNEL_NODE_PARAMS& in, cudaKernelNodeParams* out) {
  void* handle = in.kern != nullptr ? static_cast<void*>(in.kern) : static_cast<void*>(in.func);
  out->func = const_cast<void*>(host_stub_of(handle));
  out->gridDim = dim3{in.gridDimX, in.gridDimY, in.gridDimZ};
  out->blockDim = dim3{in.blockDimX, in.blockDimY, in.blockDimZ};
  out->sharedMemBytes = in.sharedMemBytes;
  out->kernelParams = in.kernelParams;
  out->extra = in.extra;
}

CUresult node_params(const DriverTable& d, const cudaGraphNodeParams* in, CUgraphNodeParams* out) {
  if (in == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static_assert(sizeof *in == sizeof *out &&
                offsetof(cudaGraphNodeParams, kernel) == offsetof(CUgraphNodeParams, kernel));
  std::memcpy(out, in, sizeof *out);
  switch (in->type) {
    case cudaGraphNodeTypeKernel:
      return convert_kernel(d, in->kernel, &out->kernel);
    case cudaGraphNodeTypeMemcpy:
      return convert_copy(d, in->memcpy, &out->memcpy);
    case cudaGraphNodeTypeMemset:
      return convert_memset(d, in->memset, &out->memset);
    case cudaGraphNodeTypeConditional:
      return convert_condition(d, in->conditional, &out->conditional);
    default:
      return CUDA_SUCCESS;
  }
}

void node_results(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
  if (from.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) to->alloc.dptr = reinterpret_cast<void*>(from.alloc.dptr);
  if (from.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) to->conditional.phGraph_out = from.conditional.phGraph_out;
}

}  // namespace simgpu::runtime
