#include <cstring>

#include "tools/simgpu/driver/graph_build.h"
#include "tools/simgpu/driver/graph_exec.h"
#include "tools/simgpu/driver/graph_params.h"
#include "tools/simgpu/driver/graph_update.h"

/// "Graph Management" of the CUDA driver API: executable graphs.
namespace simgpu {
namespace {

/// The first forms report the node but have no room for the rest; the log gets a word.
CUresult instantiate_with_log(CUgraphExec* out, CUgraph graph, CUgraphNode* bad, char* log,
                              std::size_t log_bytes) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  const CUresult result = instantiate(Graph::find(graph), &p, out);
  if (bad != nullptr) *bad = p.hErrNode_out;
  if (log != nullptr && log_bytes > 0) {
    std::strncpy(log, result == CUDA_SUCCESS ? "" : "the graph cannot be instantiated", log_bytes - 1);
    log[log_bytes - 1] = '\0';
  }
  return result;
}

CUresult set_node(CUgraphExec handle, CUgraphNode node, CUresult made, NodeWork&& work) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return made == CUDA_SUCCESS ? update_node(exec.get(), GraphNode::find(node), std::move(work)) : made;
}

CUresult set_kernel(Driver& d, CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2& p) {
  KernelWork work;
  const CUresult made = kernel_work(d, current_context(), p, &work);
  return set_node(exec, node, made, std::move(work));
}

CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo* info) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  const Graph* graph = Graph::find(graph_handle);
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  if (exec == nullptr || graph == nullptr || graph->moved || graph->capturing) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *info = update_exec(exec.get(), *graph);
  return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/// The node of an executable graph that can be switched off; null for every other one.
GraphNode* switchable(CUgraphExec handle, CUgraphNode node_handle) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  const GraphNode* node = GraphNode::find(node_handle);
  GraphNode* target = exec == nullptr || node == nullptr ? nullptr : exec->graph->find_copy_of(node->id);
  if (target == nullptr) return nullptr;
  const bool can = std::holds_alternative<KernelWork>(target->work) ||
                   std::holds_alternative<MemcpyWork>(target->work) ||
                   std::holds_alternative<MemsetWork>(target->work);
  return can ? target : nullptr;
}

}  // namespace

SIMGPU_API(cuGraphInstantiate,
           (CUgraphExec * out, CUgraph graph, CUgraphNode* bad, char* log, size_t log_bytes), out, graph, bad,
           log, log_bytes) {
  return instantiate_with_log(out, graph, bad, log, log_bytes);
}
SIMGPU_API(cuGraphInstantiate_v2,
           (CUgraphExec * out, CUgraph graph, CUgraphNode* bad, char* log, size_t log_bytes), out, graph, bad,
           log, log_bytes) {
  return instantiate_with_log(out, graph, bad, log, log_bytes);
}

SIMGPU_API(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags), out,
           graph, flags) {
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  p.flags = flags;
  // Only the form with parameters has a stream to upload in.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(Graph::find(graph), &p, out);
}

SIMGPU_API_TWINS(cuGraphInstantiateWithParams, _ptsz,
                 (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p), out, graph, p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool upload = (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  const std::shared_ptr<Stream> stream = d.find_stream(&context, p->hUploadStream, per_thread);
  if (upload && stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (upload) {
    const CUresult allowed = refuse_in_capture(*stream);
    if (allowed != CUDA_SUCCESS) return allowed;
  }
  const CUresult result = instantiate(Graph::find(graph), p, out);
  if (result != CUDA_SUCCESS || !upload) return result;
  return upload_graph(d, graphs().find(*out), stream);
}

SIMGPU_API(cuGraphExecDestroy, (CUgraphExec exec), exec) {
  return destroy_exec(exec);
}

SIMGPU_API(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t* flags), handle, flags) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

SIMGPU_API_TWINS(cuGraphUpload, _ptsz, (CUgraphExec handle, CUstream stream_handle), handle, stream_handle) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  const std::shared_ptr<Stream> stream = d.find_stream(&context, stream_handle, per_thread);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return upload_graph(d, exec, stream);
}

SIMGPU_API_TWINS(cuGraphLaunch, _ptsz, (CUgraphExec handle, CUstream stream_handle), handle, stream_handle) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  const std::shared_ptr<Stream> stream = d.find_stream(&context, stream_handle, per_thread);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return launch_graph(d, exec, stream);
}

SIMGPU_API(cuGraphExecUpdate,
           (CUgraphExec exec, CUgraph graph, CUgraphNode* bad, CUgraphExecUpdateResult* result), exec, graph,
           bad, result) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult updated = update(exec, graph, &info);
  if (bad != nullptr) *bad = info.errorNode;
  if (result != nullptr) *result = info.result;
  return updated;
}
SIMGPU_API(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info), exec,
           graph, info) {
  return info == nullptr ? CUDA_ERROR_INVALID_VALUE : update(exec, graph, info);
}

SIMGPU_API(cuGraphExecKernelNodeSetParams,
           (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params), exec, node,
           params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_kernel(d, exec, node, widen(*params));
}
SIMGPU_API(cuGraphExecKernelNodeSetParams_v2,
           (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params), exec, node, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_kernel(d, exec, node, *params);
}

SIMGPU_API(cuGraphExecMemcpyNodeSetParams,
           (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext context), exec, node,
           copy, context) {
  MemcpyWork work;
  const CUresult made = memcpy_work(d, copy, context, &work);
  return set_node(exec, node, made, work);
}

SIMGPU_API(cuGraphExecMemsetNodeSetParams,
           (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context),
           exec, node, params, context) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemsetWork work;
  const CUresult made = memset_work(d, with_context(*params, context), &work);
  return set_node(exec, node, made, work);
}

SIMGPU_API(cuGraphExecHostNodeSetParams,
           (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params), exec, node, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostWork work;
  const CUresult made = host_work(params->fn, params->userData, &work);
  return set_node(exec, node, made, work);
}

SIMGPU_API(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child), exec,
           node, child) {
  ChildWork work;
  const CUresult made = child_work(child, &work);
  return set_node(exec, node, made, std::move(work));
}

SIMGPU_API(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), exec,
           node, event) {
  return set_node(exec, node, check_event(d, event), EventRecordWork{event});
}

SIMGPU_API(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), exec, node,
           event) {
  return set_node(exec, node, check_event(d, event), EventWaitWork{event});
}

SIMGPU_API(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params), exec,
           node, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult made = any_work(d, current_context(), *params, &work);
  return set_node(exec, node, made, std::move(work));
}

SIMGPU_API(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled), exec, node,
           enabled) {
  GraphNode* target = switchable(exec, node);
  if (target == nullptr) return CUDA_ERROR_INVALID_VALUE;
  target->enabled = enabled != 0;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned* enabled), exec, node,
           enabled) {
  const GraphNode* target = switchable(exec, node);
  if (target == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *enabled = target->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
