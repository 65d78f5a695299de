#include "tools/simgpu/runtime/copy_params.h"
#include "tools/simgpu/runtime/node_params.h"
#include "tools/simgpu/runtime/registry.h"
#include "tools/simgpu/runtime/runtime.h"

/// "Graph Management" of the CUDA runtime API: nodes of every kind, their parameters in graphs and in
/// executable graphs.

namespace simgpu::runtime {
namespace {

/// A copy or memset of a graph runs in the context that is current when its parameters are set.
template <class Work>
cudaError_t in_context(Work&& work) {
  return call(false, [&](const DriverTable& d) {
    CUcontext context = nullptr;
    const CUresult result = d.cuCtxGetCurrent(&context);
    return result == CUDA_SUCCESS ? work(d, context) : result;
  });
}

/// Runs `work(driver, driver's parameters)` for the parameters of a kernel node.
template <class Work>
cudaError_t with_kernel_params(const cudaKernelNodeParams* params, Work&& work) {
  bool unknown = false;
  const cudaError_t error = try_call(false, [&](const DriverTable& d) {
    CUDA_KERNEL_NODE_PARAMS converted{};
    const CUresult result = kernel_params(d, params, &converted);
    unknown = result == CUDA_ERROR_INVALID_HANDLE;
    return result == CUDA_SUCCESS ? work(d, converted) : result;
  });
  return finish(unknown ? cudaErrorInvalidDeviceFunction : error);
}

/// Runs `work(driver, context, driver's parameters)` for the parameters of a copy node.
template <class Work>
cudaError_t with_slices(const cudaMemcpy3DParms* params, Work&& work) {
  CUDA_MEMCPY3D converted{};
  const cudaError_t error = slices(params, &converted);
  if (error != cudaSuccess) return finish(error);
  return in_context([&](const DriverTable& d, CUcontext context) { return work(d, context, converted); });
}

template <class Work>
cudaError_t with_row(void* dst, const void* src, std::size_t n, cudaMemcpyKind kind, Work&& work) {
  if (!known_kind(kind)) return finish(cudaErrorInvalidMemcpyDirection);
  const CUDA_MEMCPY3D converted = one_row(dst, src, n, kind);
  return in_context([&](const DriverTable& d, CUcontext context) { return work(d, context, converted); });
}

/// Runs `work(driver, driver's parameters)` for the parameters of any node and brings back what it wrote.
template <class Work>
cudaError_t with_params(cudaGraphNodeParams* params, Work&& work) {
  bool unknown = false;
  const cudaError_t error = try_call(false, [&](const DriverTable& d) {
    CUgraphNodeParams converted{};
    CUresult result = node_params(d, params, &converted);
    unknown = result == CUDA_ERROR_INVALID_HANDLE && params->type == cudaGraphNodeTypeKernel;
    if (result == CUDA_SUCCESS) result = work(d, &converted);
    if (result == CUDA_SUCCESS) node_results(converted, params);
    return result;
  });
  return finish(unknown ? cudaErrorInvalidDeviceFunction : error);
}

}  // namespace

// Any kind.
SIMGPU_RUNTIME(cudaGraphAddNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params)) {
  return with_params(params, [&](const DriverTable& d, CUgraphNodeParams* p) {
    return d.cuGraphAddNode(node, graph, dependencies, same<CUgraphEdgeData>(edges), count, p);
  });
}
SIMGPU_RUNTIME(cudaGraphNodeSetParams, (cudaGraphNode_t node, cudaGraphNodeParams* params)) {
  return with_params(
      params, [&](const DriverTable& d, CUgraphNodeParams* p) { return d.cuGraphNodeSetParams(node, p); });
}
SIMGPU_RUNTIME(cudaGraphExecNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* params)) {
  return with_params(params, [&](const DriverTable& d, CUgraphNodeParams* p) {
    return d.cuGraphExecNodeSetParams(exec, node, p);
  });
}

// Kernels.
SIMGPU_RUNTIME(cudaGraphAddKernelNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                const cudaKernelNodeParams* params)) {
  return with_kernel_params(params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& p) {
    return d.cuGraphAddKernelNode(node, graph, dependencies, count, &p);
  });
}
SIMGPU_RUNTIME(cudaGraphKernelNodeGetParams, (cudaGraphNode_t node, cudaKernelNodeParams* params)) {
  return call(false, [&](const DriverTable& d) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS found{};
    const CUresult result = d.cuGraphKernelNodeGetParams(node, &found);
    if (result == CUDA_SUCCESS) kernel_params_back(found, params);
    return result;
  });
}
SIMGPU_RUNTIME(cudaGraphKernelNodeSetParams, (cudaGraphNode_t node, const cudaKernelNodeParams* params)) {
  return with_kernel_params(params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& p) {
    return d.cuGraphKernelNodeSetParams(node, &p);
  });
}
SIMGPU_RUNTIME(cudaGraphExecKernelNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* params)) {
  return with_kernel_params(params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& p) {
    return d.cuGraphExecKernelNodeSetParams(exec, node, &p);
  });
}
SIMGPU_FORWARD(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t dst, cudaGraphNode_t src),
               d.cuGraphKernelNodeCopyAttributes(dst, src))
SIMGPU_FORWARD(cudaGraphKernelNodeGetAttribute,
               (cudaGraphNode_t node, cudaLaunchAttributeID which, cudaLaunchAttributeValue* value),
               d.cuGraphKernelNodeGetAttribute(node, static_cast<CUkernelNodeAttrID>(which),
                                               same<CUkernelNodeAttrValue>(value)))
SIMGPU_FORWARD(cudaGraphKernelNodeSetAttribute,
               (cudaGraphNode_t node, cudaLaunchAttributeID which, const cudaLaunchAttributeValue* value),
               d.cuGraphKernelNodeSetAttribute(node, static_cast<CUkernelNodeAttrID>(which),
                                               same<CUkernelNodeAttrValue>(value)))

// Copies.
SIMGPU_RUNTIME(cudaGraphAddMemcpyNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                const cudaMemcpy3DParms* params)) {
  return with_slices(params, [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
    return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, &p, context);
  });
}
SIMGPU_RUNTIME(cudaGraphAddMemcpyNode1D,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                void* dst, const void* src, size_t n, cudaMemcpyKind kind)) {
  return with_row(dst, src, n, kind, [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
    return d.cuGraphAddMemcpyNode(node, graph, dependencies, count, &p, context);
  });
}
SIMGPU_RUNTIME(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, cudaMemcpy3DParms* params)) {
  return call(false, [&](const DriverTable& d) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D found{};
    const CUresult result = d.cuGraphMemcpyNodeGetParams(node, &found);
    if (result == CUDA_SUCCESS) *params = unslice(found);
    return result;
  });
}
SIMGPU_RUNTIME(cudaGraphMemcpyNodeSetParams, (cudaGraphNode_t node, const cudaMemcpy3DParms* params)) {
  return with_slices(params, [&](const DriverTable& d, CUcontext, const CUDA_MEMCPY3D& p) {
    return d.cuGraphMemcpyNodeSetParams(node, &p);
  });
}
SIMGPU_RUNTIME(cudaGraphMemcpyNodeSetParams1D,
               (cudaGraphNode_t node, void* dst, const void* src, size_t n, cudaMemcpyKind kind)) {
  return with_row(dst, src, n, kind, [&](const DriverTable& d, CUcontext, const CUDA_MEMCPY3D& p) {
    return d.cuGraphMemcpyNodeSetParams(node, &p);
  });
}
SIMGPU_RUNTIME(cudaGraphExecMemcpyNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* params)) {
  return with_slices(params, [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
    return d.cuGraphExecMemcpyNodeSetParams(exec, node, &p, context);
  });
}
SIMGPU_RUNTIME(cudaGraphExecMemcpyNodeSetParams1D, (cudaGraphExec_t exec, cudaGraphNode_t node, void* dst,
                                                    const void* src, size_t n, cudaMemcpyKind kind)) {
  return with_row(dst, src, n, kind, [&](const DriverTable& d, CUcontext context, const CUDA_MEMCPY3D& p) {
    return d.cuGraphExecMemcpyNodeSetParams(exec, node, &p, context);
  });
}

// Memsets: both structures have one layout.
SIMGPU_RUNTIME(cudaGraphAddMemsetNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                const cudaMemsetParams* params)) {
  return in_context([&](const DriverTable& d, CUcontext context) {
    return d.cuGraphAddMemsetNode(node, graph, dependencies, count, same<CUDA_MEMSET_NODE_PARAMS>(params),
                                  context);
  });
}
SIMGPU_FORWARD(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* params),
               d.cuGraphMemsetNodeGetParams(node, same<CUDA_MEMSET_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const cudaMemsetParams* params),
               d.cuGraphMemsetNodeSetParams(node, same<CUDA_MEMSET_NODE_PARAMS>(params)))
SIMGPU_RUNTIME(cudaGraphExecMemsetNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* params)) {
  return in_context([&](const DriverTable& d, CUcontext context) {
    return d.cuGraphExecMemsetNodeSetParams(exec, node, same<CUDA_MEMSET_NODE_PARAMS>(params), context);
  });
}

// Host functions.
SIMGPU_FORWARD(cudaGraphAddHostNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                const cudaHostNodeParams* params),
               d.cuGraphAddHostNode(node, graph, dependencies, count, same<CUDA_HOST_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* params),
               d.cuGraphHostNodeGetParams(node, same<CUDA_HOST_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const cudaHostNodeParams* params),
               d.cuGraphHostNodeSetParams(node, same<CUDA_HOST_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphExecHostNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* params),
               d.cuGraphExecHostNodeSetParams(exec, node, same<CUDA_HOST_NODE_PARAMS>(params)))

// Graphs in graphs, and nodes without work.
SIMGPU_FORWARD(cudaGraphAddEmptyNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count),
               d.cuGraphAddEmptyNode(node, graph, dependencies, count))
SIMGPU_FORWARD(cudaGraphAddChildGraphNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                cudaGraph_t child),
               d.cuGraphAddChildGraphNode(node, graph, dependencies, count, child))
SIMGPU_FORWARD(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* child),
               d.cuGraphChildGraphNodeGetGraph(node, child))
SIMGPU_FORWARD(cudaGraphExecChildGraphNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child),
               d.cuGraphExecChildGraphNodeSetParams(exec, node, child))
SIMGPU_RUNTIME(cudaGraphConditionalHandleCreate,
               (cudaGraphConditionalHandle * out, cudaGraph_t graph, unsigned value, unsigned flags)) {
  return in_context([&](const DriverTable& d, CUcontext context) {
    return d.cuGraphConditionalHandleCreate(same<CUgraphConditionalHandle>(out), graph, context, value,
                                            flags);
  });
}

// Events.
SIMGPU_FORWARD(cudaGraphAddEventRecordNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                cudaEvent_t event),
               d.cuGraphAddEventRecordNode(node, graph, dependencies, count, event))
SIMGPU_FORWARD(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
               d.cuGraphEventRecordNodeGetEvent(node, event))
SIMGPU_FORWARD(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
               d.cuGraphEventRecordNodeSetEvent(node, event))
SIMGPU_FORWARD(cudaGraphExecEventRecordNodeSetEvent,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
               d.cuGraphExecEventRecordNodeSetEvent(exec, node, event))
SIMGPU_FORWARD(cudaGraphAddEventWaitNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                cudaEvent_t event),
               d.cuGraphAddEventWaitNode(node, graph, dependencies, count, event))
SIMGPU_FORWARD(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
               d.cuGraphEventWaitNodeGetEvent(node, event))
SIMGPU_FORWARD(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
               d.cuGraphEventWaitNodeSetEvent(node, event))
SIMGPU_FORWARD(cudaGraphExecEventWaitNodeSetEvent,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
               d.cuGraphExecEventWaitNodeSetEvent(exec, node, event))

// Memory of graphs.
SIMGPU_FORWARD(cudaGraphAddMemAllocNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                cudaMemAllocNodeParams* params),
               d.cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                        same<CUDA_MEM_ALLOC_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, cudaMemAllocNodeParams* params),
               d.cuGraphMemAllocNodeGetParams(node, same<CUDA_MEM_ALLOC_NODE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphAddMemFreeNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                void* pointer),
               d.cuGraphAddMemFreeNode(node, graph, dependencies, count, device_address(pointer)))
SIMGPU_FORWARD(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* pointer_out),
               d.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(pointer_out)))

}  // namespace simgpu::runtime
