#pragma once

#include "tools/simgpu/driver/graph_exec.h"

namespace simgpu {

/// Gives the executable graph the parameters of a graph of the same shape, all or none ("cuGraphExecUpdate").
/// Nodes are paired from the exit nodes backwards, by the order of exit nodes and of edges.
CUgraphExecUpdateResultInfo update_exec(GraphExec* exec, const Graph& from);
/// The same for the child graph in the node that was copied from this one. CUDA_ERROR_INVALID_VALUE if it
/// cannot be done.
CUresult update_child(GraphExec* exec, const GraphNode& node, const Graph& from);
/// Gives the node that was copied from this one other work, within the limits of "cuGraphExecNodeSetParams".
CUresult update_node(GraphExec* exec, const GraphNode* node, NodeWork&& work);

}  // namespace simgpu
