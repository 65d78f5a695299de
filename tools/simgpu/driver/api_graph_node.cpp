#include "tools/simgpu/driver/graph_build.h"
#include "tools/simgpu/driver/graph_exec.h"
#include "tools/simgpu/driver/graph_params.h"

/// "Graph Management" of the CUDA driver API: adding, reading and setting nodes other than kernel nodes
/// (api_graph_kernel.cpp) and nodes that allocate and free memory (api_graph_memory.cpp).
namespace simgpu {
namespace {

/// Puts a graph itself into a node, with its memory nodes. Its handle then belongs to the parent.
CUresult add_moved(CUgraphNode* out, Graph* graph, const CUgraphNode* dependencies, std::size_t count,
                   CUgraph child_handle) {
  const auto owned = graphs().owned.find(child_handle);
  if (graph == nullptr || owned == graphs().owned.end() || owned->second->capturing) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const Graph* up = graph; up != nullptr; up = up->parent == nullptr ? nullptr : up->parent->graph) {
    if (up == owned->second.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> after;
  const CUresult read = read_nodes(graph, dependencies, count, &after);
  if (read != CUDA_SUCCESS || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ChildWork work;
  work.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  work.graph = std::move(owned->second);
  work.graph->moved = true;
  graphs().owned.erase(owned);
  *out = handle_of(graph->add(std::move(work), after));
  return CUDA_SUCCESS;
}

CUresult add_any(Driver& d, CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                 const CUgraphEdgeData* data, std::size_t count, CUgraphNodeParams* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult edges = check_edge_data(data, count);
  if (edges != CUDA_SUCCESS) return edges;
  const bool moved = params->type == CU_GRAPH_NODE_TYPE_GRAPH &&
                     params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (moved) return add_moved(out, Graph::find(graph), dependencies, count, params->graph.graph);
  NodeWork work;
  const CUresult made = any_work(d, current_context(), *params, &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, std::move(work), out)
                              : made;
}

}  // namespace

SIMGPU_API(cuGraphAddMemcpyNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            const CUDA_MEMCPY3D* copy, CUcontext context),
           out, graph, dependencies, count, copy, context) {
  MemcpyWork work;
  const CUresult made = memcpy_work(d, copy, context, &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, work, out) : made;
}

SIMGPU_API(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D* out), node, out) {
  const auto* work = work_as<MemcpyWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = work->copy;
  return CUDA_SUCCESS;
}

/// The node keeps its context.
SIMGPU_API(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D* copy), node, copy) {
  const auto* old = work_as<MemcpyWork>(node);
  if (old == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemcpyWork work;
  const CUresult made = memcpy_work(d, copy, old->context, &work);
  return made == CUDA_SUCCESS ? set_work(GraphNode::find(node), work) : made;
}

SIMGPU_API(cuGraphAddMemsetNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context),
           out, graph, dependencies, count, params, context) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemsetWork work;
  const CUresult made = memset_work(d, with_context(*params, context), &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, work, out) : made;
}

SIMGPU_API(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out), node, out) {
  const auto* work = work_as<MemsetWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS_v2& p = work->fill;
  *out = CUDA_MEMSET_NODE_PARAMS{p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params), node,
           params) {
  const auto* old = work_as<MemsetWork>(node);
  if (old == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemsetWork work;
  const CUresult made = memset_work(d, with_context(*params, old->fill.ctx), &work);
  return made == CUDA_SUCCESS ? set_work(GraphNode::find(node), work) : made;
}

SIMGPU_API(cuGraphAddHostNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            const CUDA_HOST_NODE_PARAMS* params),
           out, graph, dependencies, count, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostWork work;
  const CUresult made = host_work(params->fn, params->userData, &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, work, out) : made;
}

SIMGPU_API(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS* out), node, out) {
  const auto* work = work_as<HostWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = CUDA_HOST_NODE_PARAMS{work->function, work->argument};
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params), node, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostWork work;
  const CUresult made = host_work(params->fn, params->userData, &work);
  return made == CUDA_SUCCESS ? set_work(GraphNode::find(node), work) : made;
}

SIMGPU_API(cuGraphAddEmptyNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count), out, graph,
           dependencies, count) {
  return add_node(Graph::find(graph), dependencies, count, EmptyWork{}, out);
}

SIMGPU_API(cuGraphAddChildGraphNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraph child),
           out, graph, dependencies, count, child) {
  ChildWork work;
  const CUresult made = child_work(child, &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, std::move(work), out)
                              : made;
}

SIMGPU_API(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* out), node, out) {
  const auto* work = work_as<ChildWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(work->graph.get());
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphAddEventRecordNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent event),
           out, graph, dependencies, count, event) {
  const CUresult known = check_event(d, event);
  return known == CUDA_SUCCESS
             ? add_node(Graph::find(graph), dependencies, count, EventRecordWork{event}, out)
             : known;
}

SIMGPU_API(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent* out), node, out) {
  const auto* work = work_as<EventRecordWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = work->event;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), node, event) {
  const CUresult known = check_event(d, event);
  return known == CUDA_SUCCESS ? set_work(GraphNode::find(node), EventRecordWork{event}) : known;
}

SIMGPU_API(cuGraphAddEventWaitNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent event),
           out, graph, dependencies, count, event) {
  const CUresult known = check_event(d, event);
  return known == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, EventWaitWork{event}, out)
                               : known;
}

SIMGPU_API(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent* out), node, out) {
  const auto* work = work_as<EventWaitWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = work->event;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event), node, event) {
  const CUresult known = check_event(d, event);
  return known == CUDA_SUCCESS ? set_work(GraphNode::find(node), EventWaitWork{event}) : known;
}

SIMGPU_API(cuGraphAddNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            CUgraphNodeParams* params),
           out, graph, dependencies, count, params) {
  return add_any(d, out, graph, dependencies, nullptr, count, params);
}
SIMGPU_API(cuGraphAddNode_v2,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
            size_t count, CUgraphNodeParams* params),
           out, graph, dependencies, data, count, params) {
  return add_any(d, out, graph, dependencies, data, count, params);
}

SIMGPU_API(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams* params), node, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult made = any_work(d, current_context(), *params, &work);
  return made == CUDA_SUCCESS ? set_work(GraphNode::find(node), std::move(work)) : made;
}

}  // namespace simgpu
