#pragma once

#include "tests/conformance/device.h"

/// Graphs in the cases of graph, graph_nodes and capture.
namespace conformance {

CUgraph make_graph();
CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0);
/// Launches it in a stream of its own and waits.
void run_graph(CUgraphExec exec);

/// A node that runs a kernel of kernels.h; parameters are copied.
CUgraphNode add_kernel(CUgraph graph, const std::vector<CUgraphNode>& after, const void* stub, unsigned count,
                       void** params);
CUgraphNode add_fill(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr out, unsigned count,
                     unsigned first);
CUgraphNode add_affine(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr data, unsigned count,
                       unsigned a, unsigned b);
CUDA_KERNEL_NODE_PARAMS kernel_node(const void* stub, unsigned count, void** params);

std::vector<CUgraphNode> nodes_of(CUgraph graph);
std::size_t edges_of(CUgraph graph);
CUgraphNodeType type_of(CUgraphNode node);

/// Captures what `work` queues in a stream of its own.
CUgraph capture(const std::function<void(CUstream)>& work,
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL);

}  // namespace conformance
