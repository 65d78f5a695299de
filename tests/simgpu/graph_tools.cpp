#include "tests/simgpu/graph_tools.h"

#include <algorithm>

#include "simgpu/kernel.h"

namespace simgpu_test {
namespace {

struct Step {
  template <class C>
  static void run(C& c, int* out, int factor, int value) {
    c.reads(out, sizeof *out);
    c.writes(out, sizeof *out);
    c.phase([&](unsigned tid) {
      if (tid == 0) {
        const unsigned product = static_cast<unsigned>(*out) * static_cast<unsigned>(factor);
        *out = static_cast<int>(product + static_cast<unsigned>(value));
      }
    });
  }
};

}  // namespace

std::vector<int> g_order;

void note(void* number) {
  g_order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(number)));
}

CUDA_HOST_NODE_PARAMS noting(int number) {
  return CUDA_HOST_NODE_PARAMS{&note, reinterpret_cast<void*>(static_cast<std::intptr_t>(number))};
}

void run(CUstream stream, int number) {
  OK(cuLaunchHostFunc(stream, &note, reinterpret_cast<void*>(static_cast<std::intptr_t>(number))));
}

bool before(int first, int second) {
  const auto a = std::find(g_order.begin(), g_order.end(), first);
  const auto b = std::find(g_order.begin(), g_order.end(), second);
  EXPECT(a != g_order.end() && b != g_order.end());
  return a < b;
}

CUgraph new_graph() {
  CUgraph graph = nullptr;
  OK(cuGraphCreate(&graph, 0));
  return graph;
}

CUgraphExec instantiate(CUgraph graph, unsigned long long flags) {
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, flags));
  return exec;
}

CUgraphNode add_host(CUgraph graph, std::vector<CUgraphNode> dependencies, int number) {
  CUgraphNode node = nullptr;
  const CUDA_HOST_NODE_PARAMS params = noting(number);
  OK(cuGraphAddHostNode(&node, graph, dependencies.data(), dependencies.size(), &params));
  return node;
}

CUgraphNode add_empty(CUgraph graph, std::vector<CUgraphNode> dependencies) {
  CUgraphNode node = nullptr;
  OK(cuGraphAddEmptyNode(&node, graph, dependencies.data(), dependencies.size()));
  return node;
}

CUfunction step_kernel() {
  return make_kernel("step", simgpu::kernel_body<Step, int*, int, int>());
}

CUgraphNode add_step(CUgraph graph, std::vector<CUgraphNode> dependencies, CUfunction step, CUdeviceptr out,
                     int factor, int value) {
  CUDA_KERNEL_NODE_PARAMS params{};
  void* arguments[] = {&out, &factor, &value};
  params.func = step;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = arguments;
  CUgraphNode node = nullptr;
  OK(cuGraphAddKernelNode(&node, graph, dependencies.data(), dependencies.size(), &params));
  return node;
}

CUDA_MEMCPY3D linear_copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.srcDevice = from;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  OK(cuGraphGetNodes(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  OK(cuGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

std::size_t edges_of(CUgraph graph) {
  std::size_t count = 0;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  return count;
}

}  // namespace simgpu_test
