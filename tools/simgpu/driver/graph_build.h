#pragma once

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph.h"

/// What the calls of "Graph Management" share: lists of nodes in and out, edge data, adding a node.
namespace simgpu {

/// Reads a list of nodes of this graph. CUDA_ERROR_INVALID_VALUE for a null list that is not empty, for what
/// is no node of the graph and for a node that is named twice.
CUresult read_nodes(const Graph* graph, const CUgraphNode* handles, std::size_t count,
                    std::vector<GraphNode*>* out);
/// CUDA_ERROR_NOT_SUPPORTED for edge data other than zero: programmatic dependencies are not simulated.
CUresult check_edge_data(const CUgraphEdgeData* data, std::size_t count);
/// Adds a node and hands out its handle.
CUresult add_node(Graph* graph, const CUgraphNode* dependencies, std::size_t count, NodeWork&& work,
                  CUgraphNode* out);
/// Replaces a node's work by work of the same kind.
CUresult set_work(GraphNode* node, NodeWork&& work);

/// Answers a query for a list: the number alone where `out` is null, else up to `*count` entries, the rest
/// null, and the number of those that were obtained.
template <class Handle>
CUresult list_out(const std::vector<Handle>& from, Handle* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = from.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) out[i] = i < from.size() ? from[i] : nullptr;
  if (*count > from.size()) *count = from.size();
  return CUDA_SUCCESS;
}

/// The work of a node if it is of this kind, or null.
template <class Work>
Work* work_as(CUgraphNode handle) {
  GraphNode* node = GraphNode::find(handle);
  return node == nullptr ? nullptr : std::get_if<Work>(&node->work);
}

}  // namespace simgpu
