#include "tools/simgpu/driver/graph_exec.h"

namespace simgpu {
namespace {

constexpr unsigned long long kKnownFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

/// A node on or behind a cycle, in this graph or one of its children; null: there is no cycle.
GraphNode* find_cycle(const Graph& graph) {
  GraphNode* node = nullptr;
  if (graph.in_order(&node).size() < graph.nodes().size()) return node;
  for (const auto& inner : graph.nodes()) {
    const auto* child = std::get_if<ChildWork>(&inner->work);
    if (node == nullptr && child != nullptr) node = find_cycle(*child->graph);
  }
  return node;
}

}  // namespace

Graphs& graphs() {
  static auto* all = new Graphs;
  return *all;
}

CUresult instantiate(Graph* graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p, CUgraphExec* out) {
  p->hErrNode_out = nullptr;
  p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (out == nullptr || graph == nullptr || graph->capturing || graph->moved) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned long long kExclusive =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if ((p->flags & ~kKnownFlags) != 0 || (p->flags & kExclusive) == kExclusive) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->instantiated > 0 && graph->has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
  if (GraphNode* bad = find_cycle(*graph)) {
    p->hErrNode_out = handle_of(bad);
    p->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto exec = std::make_shared<GraphExec>();
  exec->graph = graph->clone();
  exec->source = handle_of(graph);
  exec->source_id = graph->id();
  exec->flags = p->flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  ++graph->instantiated;
  *out = handle_of(exec.get());
  graphs().execs.emplace(*out, std::move(exec));
  p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult destroy_exec(CUgraphExec handle) {
  const std::shared_ptr<GraphExec> exec = graphs().find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph* source = Graph::find(exec->source);
  if (source != nullptr && source->id() == exec->source_id) --source->instantiated;
  graphs().execs.erase(handle);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
