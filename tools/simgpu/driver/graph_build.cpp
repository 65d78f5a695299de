#include "tools/simgpu/driver/graph_build.h"

#include <algorithm>
#include <cstring>

namespace simgpu {

CUresult read_nodes(const Graph* graph, const CUgraphNode* handles, std::size_t count,
                    std::vector<GraphNode*>* out) {
  if (graph == nullptr || (count > 0 && handles == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = GraphNode::find(handles[i]);
    if (!graph->contains(node)) return CUDA_ERROR_INVALID_VALUE;
    if (std::find(out->begin(), out->end(), node) != out->end()) return CUDA_ERROR_INVALID_VALUE;
    out->push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult check_edge_data(const CUgraphEdgeData* data, std::size_t count) {
  const CUgraphEdgeData zero{};
  for (std::size_t i = 0; data != nullptr && i < count; ++i) {
    if (std::memcmp(&data[i], &zero, sizeof zero) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult add_node(Graph* graph, const CUgraphNode* dependencies, std::size_t count, NodeWork&& work,
                  CUgraphNode* out) {
  std::vector<GraphNode*> nodes;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult read = read_nodes(graph, dependencies, count, &nodes);
  if (read == CUDA_SUCCESS) *out = handle_of(graph->add(std::move(work), nodes));
  return read;
}

CUresult set_work(GraphNode* node, NodeWork&& work) {
  if (node == nullptr || node->work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<KernelWork>(&work)) {
    kernel->attributes = std::get<KernelWork>(node->work).attributes;  // they are set by calls of their own
  }
  const auto* child = std::get_if<ChildWork>(&node->work);
  if (child != nullptr && child->graph->held_by_capture()) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  adopt_child(node);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
