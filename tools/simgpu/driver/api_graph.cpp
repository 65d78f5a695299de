#include <algorithm>

#include "tools/simgpu/driver/graph_build.h"
#include "tools/simgpu/driver/graph_exec.h"

/// "Graph Management" of the CUDA driver API: graphs, their nodes and edges. All but adding, reading and
/// setting nodes.
namespace simgpu {
namespace {

CUresult edges_out(const std::vector<std::pair<GraphNode*, GraphNode*>>& edges, CUgraphNode* from,
                   CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (from == nullptr) {
    if (data != nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = edges.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    from[i] = i < edges.size() ? handle_of(edges[i].first) : nullptr;
    to[i] = i < edges.size() ? handle_of(edges[i].second) : nullptr;
    if (data != nullptr) data[i] = {};
  }
  if (*count > edges.size()) *count = edges.size();
  return CUDA_SUCCESS;
}

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   std::size_t* count) {
  const Graph* graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::pair<GraphNode*, GraphNode*>> edges;
  for (const auto& node : graph->nodes()) {
    for (GraphNode* dependent : node->dependents) edges.emplace_back(node.get(), dependent);
  }
  return edges_out(edges, from, to, data, count);
}

CUresult get_neighbours(const std::vector<GraphNode*>& nodes, CUgraphNode* out, CUgraphEdgeData* data,
                        std::size_t* count) {
  if (data != nullptr && out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> handles;
  for (GraphNode* node : nodes) handles.push_back(handle_of(node));
  if (data != nullptr && count != nullptr) std::fill(data, data + *count, CUgraphEdgeData{});
  return list_out(handles, out, count);
}

CUresult get_dependencies(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, std::size_t* count) {
  const GraphNode* node = GraphNode::find(handle);
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : get_neighbours(node->dependencies, out, data, count);
}

CUresult get_dependents(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, std::size_t* count) {
  const GraphNode* node = GraphNode::find(handle);
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : get_neighbours(node->dependents, out, data, count);
}

/// Adds or removes edges, all or none. An edge to itself is refused: no graph with one could be instantiated.
CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, std::size_t count, bool add) {
  const Graph* graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return CUDA_SUCCESS;
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!add && (graph->has_memory_nodes() || graph->capturing)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult checked = check_edge_data(data, count);
  if (checked != CUDA_SUCCESS) return checked;
  std::vector<std::pair<GraphNode*, GraphNode*>> edges;
  for (std::size_t i = 0; i < count; ++i) {
    const std::pair edge{GraphNode::find(from[i]), GraphNode::find(to[i])};
    if (!graph->contains(edge.first) || !graph->contains(edge.second) || edge.first == edge.second ||
        Graph::has_edge(edge.first, edge.second) == add ||
        std::find(edges.begin(), edges.end(), edge) != edges.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    edges.push_back(edge);
  }
  for (const auto& [first, second] : edges) {
    if (add) {
      Graph::add_edge(first, second);
    } else {
      Graph::remove_edge(first, second);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API(cuGraphCreate, (CUgraph * out, unsigned flags), out, flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = graphs().own(std::make_unique<Graph>());
  return CUDA_SUCCESS;
}

/// Child graphs, and graphs that a capture adds to, go with their owners.
SIMGPU_API(cuGraphDestroy, (CUgraph handle), handle) {
  const auto it = graphs().owned.find(handle);
  if (it == graphs().owned.end() || it->second->held_by_capture()) return CUDA_ERROR_INVALID_VALUE;
  graphs().owned.erase(it);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphClone, (CUgraph * out, CUgraph handle), out, handle) {
  const Graph* graph = Graph::find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  *out = graphs().own(graph->clone());
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode original, CUgraph clone), out, original,
           clone) {
  const GraphNode* node = GraphNode::find(original);
  const Graph* graph = Graph::find(clone);
  if (out == nullptr || node == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* copy = graph->find_copy_of(node->id);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(copy);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphGetNodes, (CUgraph handle, CUgraphNode* out, size_t* count), handle, out, count) {
  const Graph* graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(handle_of(node.get()));
  return list_out(nodes, out, count);
}

SIMGPU_API(cuGraphGetRootNodes, (CUgraph handle, CUgraphNode* out, size_t* count), handle, out, count) {
  const Graph* graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph->nodes()) {
    if (node->dependencies.empty()) nodes.push_back(handle_of(node.get()));
  }
  return list_out(nodes, out, count);
}

SIMGPU_API(cuGraphGetEdges, (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count), graph, from,
           to, count) {
  return get_edges(graph, from, to, nullptr, count);
}
SIMGPU_API(cuGraphGetEdges_v2,
           (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count), graph,
           from, to, data, count) {
  return get_edges(graph, from, to, data, count);
}

SIMGPU_API(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode* out, size_t* count), node, out,
           count) {
  return get_dependencies(node, out, nullptr, count);
}
SIMGPU_API(cuGraphNodeGetDependencies_v2,
           (CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count), node, out, data,
           count) {
  return get_dependencies(node, out, data, count);
}

SIMGPU_API(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode* out, size_t* count), node, out,
           count) {
  return get_dependents(node, out, nullptr, count);
}
SIMGPU_API(cuGraphNodeGetDependentNodes_v2,
           (CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count), node, out, data,
           count) {
  return get_dependents(node, out, data, count);
}

SIMGPU_API(cuGraphAddDependencies,
           (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count), graph, from, to,
           count) {
  return change_edges(graph, from, to, nullptr, count, true);
}
SIMGPU_API(cuGraphAddDependencies_v2,
           (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
            size_t count),
           graph, from, to, data, count) {
  return change_edges(graph, from, to, data, count, true);
}

SIMGPU_API(cuGraphRemoveDependencies,
           (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count), graph, from, to,
           count) {
  return change_edges(graph, from, to, nullptr, count, false);
}
SIMGPU_API(cuGraphRemoveDependencies_v2,
           (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
            size_t count),
           graph, from, to, data, count) {
  return change_edges(graph, from, to, data, count, false);
}

SIMGPU_API(cuGraphDestroyNode, (CUgraphNode handle), handle) {
  GraphNode* node = GraphNode::find(handle);
  if (node == nullptr || node->graph->capturing || node->graph->has_memory_nodes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto* child = std::get_if<ChildWork>(&node->work);
  if (child != nullptr && child->graph->held_by_capture()) return CUDA_ERROR_INVALID_VALUE;
  node->graph->remove(node);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphNodeGetType, (CUgraphNode handle, CUgraphNodeType* type), handle, type) {
  const GraphNode* node = GraphNode::find(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = type_of(node->work);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
