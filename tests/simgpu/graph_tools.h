#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "tests/simgpu/device_tools.h"

/// What the tests of graphs and capture share.
namespace simgpu_test {

/// Host functions append their number here: the order in which work ran.
extern std::vector<int> g_order;

void note(void* number);
/// A host function that notes a number, as a node's parameters and in a stream.
CUDA_HOST_NODE_PARAMS noting(int number);
void run(CUstream stream, int number);
/// True if both numbers were noted, the first one first.
bool before(int first, int second);

CUgraph new_graph();
CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0);
CUgraphNode add_host(CUgraph graph, std::vector<CUgraphNode> dependencies, int number);
CUgraphNode add_empty(CUgraph graph, std::vector<CUgraphNode> dependencies);
/// A kernel that does out[0] = out[0] * factor + value.
CUfunction step_kernel();
CUgraphNode add_step(CUgraph graph, std::vector<CUgraphNode> dependencies, CUfunction step, CUdeviceptr out,
                     int factor, int value);
CUDA_MEMCPY3D linear_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);

/// The nodes of a graph, in its order.
std::vector<CUgraphNode> nodes_of(CUgraph graph);
std::size_t edges_of(CUgraph graph);

}  // namespace simgpu_test
