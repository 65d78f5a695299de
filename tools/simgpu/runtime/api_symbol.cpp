#include "tools/simgpu/runtime/copy_params.h"
#include "tools/simgpu/runtime/variable.h"

/// Variables of device code: cudaGetSymbol*, and copy nodes of graphs that name a variable.
/// cudaMemcpyToSymbol and its kin are in api_copy.cpp.

namespace simgpu::runtime {
namespace {

/// Runs `work(driver, context, driver's parameters)` for a copy of `n` bytes between `other` and a variable.
template <class Work>
cudaError_t with_variable_copy(bool into, const void* symbol, const void* other, std::size_t n,
                               std::size_t offset, cudaMemcpyKind kind, Work&& work) {
  if (!(into ? to_variable(kind) : from_variable(kind))) return finish(cudaErrorInvalidMemcpyDirection);
  return with_variable(false, symbol, n, offset, [&](const DriverTable& d, char* at) {
    CUcontext context = nullptr;
    const CUresult result = d.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS) return result;
    const CUDA_MEMCPY3D copy =
        into ? one_row(at, other, n, kind) : one_row(const_cast<void*>(other), at, n, kind);
    return work(d, context, copy);
  });
}

}  // namespace

SIMGPU_RUNTIME(cudaGetSymbolAddress, (void** address, const void* symbol)) {
  if (address == nullptr) return finish(cudaErrorInvalidValue);
  return with_variable(false, symbol, 0, 0, [&](const DriverTable&, char* found) {
    *address = found;
    return CUDA_SUCCESS;
  });
}

SIMGPU_RUNTIME(cudaGetSymbolSize, (size_t * bytes, const void* symbol)) {
  if (bytes == nullptr) return finish(cudaErrorInvalidValue);
  return with_variable(false, symbol, 0, 0, [&](const DriverTable& d, char*) {
    CUdeviceptr base = 0;
    return find_variable(d, symbol, &base, bytes);
  });
}

SIMGPU_RUNTIME(cudaGraphAddMemcpyNodeToSymbol,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                const void* symbol, const void* src, size_t n, size_t offset, cudaMemcpyKind kind)) {
  return with_variable_copy(true, symbol, src, n, offset, kind,
                            [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, &p, context);
                            });
}

SIMGPU_RUNTIME(cudaGraphAddMemcpyNodeFromSymbol,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                void* dst, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind)) {
  return with_variable_copy(false, symbol, dst, n, offset, kind,
                            [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, &p, context);
                            });
}

SIMGPU_RUNTIME(cudaGraphMemcpyNodeSetParamsToSymbol,
               (cudaGraphNode_t node, const void* symbol, const void* src, size_t n, size_t offset,
                cudaMemcpyKind kind)) {
  return with_variable_copy(true, symbol, src, n, offset, kind,
                            [&](const DriverTable& d, CUcontext, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphMemcpyNodeSetParams(node, &p);
                            });
}

SIMGPU_RUNTIME(cudaGraphMemcpyNodeSetParamsFromSymbol, (cudaGraphNode_t node, void* dst, const void* symbol,
                                                        size_t n, size_t offset, cudaMemcpyKind kind)) {
  return with_variable_copy(false, symbol, dst, n, offset, kind,
                            [&](const DriverTable& d, CUcontext, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphMemcpyNodeSetParams(node, &p);
                            });
}

SIMGPU_RUNTIME(cudaGraphExecMemcpyNodeSetParamsToSymbol,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* src, size_t n,
                size_t offset, cudaMemcpyKind kind)) {
  return with_variable_copy(true, symbol, src, n, offset, kind,
                            [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphExecMemcpyNodeSetParams(exec, node, &p, context);
                            });
}

SIMGPU_RUNTIME(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
               (cudaGraphExec_t exec, cudaGraphNode_t node, void* dst, const void* symbol, size_t n,
                size_t offset, cudaMemcpyKind kind)) {
  return with_variable_copy(false, symbol, dst, n, offset, kind,
                            [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
                              return d.cuGraphExecMemcpyNodeSetParams(exec, node, &p, context);
                            });
}

}  // namespace simgpu::runtime
