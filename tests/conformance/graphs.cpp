#include "tests/conformance/graphs.h"

namespace conformance {

CUgraph make_graph() {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  return graph;
}

CUgraphExec instantiate(CUgraph graph, unsigned long long flags) {
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiate)(&exec, graph, flags));
  return exec;
}

void run_graph(CUgraphExec exec) {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

CUDA_KERNEL_NODE_PARAMS kernel_node(const void* stub, unsigned count, void** params) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function_of(stub);
  node.gridDimX = blocks_for(count);
  node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = kBlock;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = params;
  return node;
}

CUgraphNode add_kernel(CUgraph graph, const std::vector<CUgraphNode>& after, const void* stub, unsigned count,
                       void** params) {
  const CUDA_KERNEL_NODE_PARAMS node = kernel_node(stub, count, params);
  CUgraphNode added = nullptr;
  OK(CU(cuGraphAddKernelNode)(&added, graph, after.data(), after.size(), &node));
  return added;
}

CUgraphNode add_fill(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr out, unsigned count,
                     unsigned first) {
  void* params[] = {&out, &count, &first};
  return add_kernel(graph, after, kFill, count, params);
}

CUgraphNode add_affine(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr data, unsigned count,
                       unsigned a, unsigned b) {
  void* params[] = {&data, &count, &a, &b};
  return add_kernel(graph, after, kAffine, count, params);
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  OK(CU(cuGraphGetNodes)(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  OK(CU(cuGraphGetNodes)(graph, nodes.data(), &count));
  EXPECT_EQ(count, nodes.size());
  return nodes;
}

std::size_t edges_of(CUgraph graph) {
  std::size_t count = 99;
  OK(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, &count));
  return count;
}

CUgraphNodeType type_of(CUgraphNode node) {
  CUgraphNodeType type{};
  OK(CU(cuGraphNodeGetType)(node, &type));
  return type;
}

CUgraph capture(const std::function<void(CUstream)>& work, CUstreamCaptureMode mode) {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  CUgraph graph = nullptr;
  OK(CU(cuStreamBeginCapture)(stream, mode));
  work(stream);
  OK(CU(cuStreamEndCapture)(stream, &graph));
  EXPECT(graph != nullptr);
  return graph;
}

}  // namespace conformance
