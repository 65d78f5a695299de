// Graphs of the runtime: what it makes of its own parameter structures. Documentation: CUDA Runtime API, page
// "Graph Management".

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/simgpu/runtime_process.h"

namespace {

using namespace simgpu_test;

struct Add {
  static void run(simgpu::CpuContext& c, int* where, int what) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *where += what;
    });
  }
};

void* add_stub() {
  static char stub = 0;
  static const bool once = [] {
    register_kernel(&stub, "add", simgpu::kernel_body<Add, int*, int>());
    return true;
  }();
  static_cast<void>(once);
  return &stub;
}

int* device_ints(std::size_t count) {
  void* ints = nullptr;
  RT(cudaMalloc(&ints, count * sizeof(int)));
  RT(cudaMemset(ints, 0, count * sizeof(int)));
  RT(cudaDeviceSynchronize());
  return static_cast<int*>(ints);
}

int read(const int* from) {
  int value = 0;
  RT(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

/// An addition of `what` to `*where` as a kernel node.
struct Addition {
  Addition(int* address, int value) : where(address), what(value) {
    params.func = add_stub();
    params.gridDim = params.blockDim = dim3{1};
    params.kernelParams = args;
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;

  int* where;
  int what;
  void* args[2] = {&where, &what};
  cudaKernelNodeParams params{};
};

void launch_and_wait(cudaGraphExec_t exec) {
  RT(cudaGraphLaunch(exec, nullptr));
  RT(cudaDeviceSynchronize());
}

}  // namespace

TEST_CASE("runtime: a kernel node is named by its host stub, in and out") {
  on_device(runtime_setup(), [] {
    int* sum = device_ints(1);
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node = nullptr;
    cudaGraphExec_t exec = nullptr;
    const Addition one(sum, 1);
    RT(cudaGraphCreate(&graph, 0));
    RT(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &one.params));
    cudaKernelNodeParams found{};
    RT(cudaGraphKernelNodeGetParams(node, &found));
    EXPECT(found.func == add_stub() && found.gridDim.x == 1 && found.blockDim.z == 1);
    EXPECT(*static_cast<int*>(found.kernelParams[1]) == 1);
    const Addition ten(sum, 10);
    RT(cudaGraphKernelNodeSetParams(node, &ten.params));
    RT(cudaGraphInstantiate(&exec, graph, 0));
    launch_and_wait(exec);
    EXPECT(read(sum) == 10);
    const Addition hundred(sum, 100);
    RT(cudaGraphExecKernelNodeSetParams(exec, node, &hundred.params));
    launch_and_wait(exec);
    EXPECT(read(sum) == 110);
    static char unknown = 0;
    cudaKernelNodeParams bad = one.params;
    bad.func = &unknown;
    RT_RESULT(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &bad), cudaErrorInvalidDeviceFunction);
    RT_RESULT(cudaGraphAddKernelNode(&node, graph, nullptr, 0, nullptr), cudaErrorInvalidValue);
    RT_RESULT(cudaGraphKernelNodeGetParams(node, nullptr), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: a kernel node can be named by a kernel handle") {
  on_device(runtime_setup(), [] {
    int* sum = device_ints(1);
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaKernel_t kernel = nullptr;
    RT(cudaGetKernel(&kernel, add_stub()));
    Addition two(sum, 2);
    two.params.func = kernel;
    RT(cudaGraphCreate(&graph, 0));
    RT(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &two.params));
    RT(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    launch_and_wait(exec);
    EXPECT(read(sum) == 2);
    RT(cudaGraphExecDestroy(exec));
    RT(cudaGraphDestroy(graph));
    return 0;
  });
}

TEST_CASE("runtime: copy nodes keep their boxes, rows and directions") {
  on_device(runtime_setup(), [] {
    int* device = device_ints(64);
    std::vector<int> host(64);
    for (int i = 0; i < 64; ++i) host[static_cast<std::size_t>(i)] = i;
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t in = nullptr;
    cudaGraphNode_t out = nullptr;
    cudaGraphExec_t exec = nullptr;
    RT(cudaGraphCreate(&graph, 0));
    // 2 slices of 2 rows of 3 ints out of rows of 8 and slices of 4 rows.
    cudaMemcpy3DParms box{};
    box.srcPtr = {host.data(), 8 * sizeof(int), 8 * sizeof(int), 4};
    box.srcPos = {sizeof(int), 1, 0};
    box.dstPtr = {device, 3 * sizeof(int), 3 * sizeof(int), 2};
    box.extent = {3 * sizeof(int), 2, 2};
    box.kind = cudaMemcpyHostToDevice;
    RT(cudaGraphAddMemcpyNode(&in, graph, nullptr, 0, &box));
    std::vector<int> back(12);
    RT(cudaGraphAddMemcpyNode1D(&out, graph, &in, 1, back.data(), device, 12 * sizeof(int),
                                cudaMemcpyDeviceToHost));
    cudaMemcpy3DParms found{};
    RT(cudaGraphMemcpyNodeGetParams(in, &found));
    EXPECT(found.srcPtr.ptr == host.data() && found.srcPtr.pitch == 8 * sizeof(int) &&
           found.srcPtr.ysize == 4);
    EXPECT(found.srcPos.x == sizeof(int) && found.srcPos.y == 1 && found.dstPtr.ptr == device);
    EXPECT(found.extent.width == 3 * sizeof(int) && found.extent.height == 2 && found.extent.depth == 2);
    EXPECT(found.kind == cudaMemcpyHostToDevice && found.srcArray == nullptr);
    RT(cudaGraphInstantiate(&exec, graph, 0));
    launch_and_wait(exec);
    EXPECT((back == std::vector<int>{9, 10, 11, 17, 18, 19, 41, 42, 43, 49, 50, 51}));
    int single = -1;
    RT(cudaGraphExecMemcpyNodeSetParams1D(exec, out, &single, device + 11, sizeof(int),
                                          cudaMemcpyDeviceToHost));
    launch_and_wait(exec);
    EXPECT(single == 51);
    const auto wrong = static_cast<cudaMemcpyKind>(7);
    RT_RESULT(cudaGraphAddMemcpyNode1D(&out, graph, nullptr, 0, &single, device, 4, wrong),
              cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaGraphMemcpyNodeSetParams(in, nullptr), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: memset and host nodes are read and changed") {
  on_device(runtime_setup(), [] {
    int* device = device_ints(4);
    static int calls = 0;
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t set = nullptr;
    cudaGraphNode_t call = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaMemsetParams memset{device, 0, 7, sizeof(int), 4, 1};
    cudaHostNodeParams host{[](void* by) { calls += *static_cast<int*>(by); }, nullptr};
    int by = 3;
    host.userData = &by;
    RT(cudaGraphCreate(&graph, 0));
    RT(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &memset));
    RT(cudaGraphAddHostNode(&call, graph, &set, 1, &host));
    cudaMemsetParams found_memset{};
    cudaHostNodeParams found_host{};
    RT(cudaGraphMemsetNodeGetParams(set, &found_memset));
    RT(cudaGraphHostNodeGetParams(call, &found_host));
    EXPECT(found_memset.dst == device && found_memset.value == 7 && found_memset.elementSize == sizeof(int));
    EXPECT(found_memset.width == 4 && found_host.fn == host.fn && found_host.userData == &by);
    RT(cudaGraphInstantiate(&exec, graph, 0));
    launch_and_wait(exec);
    EXPECT(read(device + 3) == 7 && calls == 3);
    memset.value = 9;
    RT(cudaGraphExecMemsetNodeSetParams(exec, set, &memset));
    RT(cudaGraphNodeSetEnabled(exec, set, 1));
    launch_and_wait(exec);
    EXPECT(read(device + 3) == 9 && calls == 6);
    return 0;
  });
}

TEST_CASE("runtime: nodes of every kind are added by one function, with edges") {
  on_device(runtime_setup(), [] {
    int* device = device_ints(1);
    int back = 0;
    Addition five(device, 5);
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t nodes[4] = {};
    cudaGraphExec_t exec = nullptr;
    RT(cudaGraphCreate(&graph, 0));
    cudaGraphNodeParams p{};
    p.type = cudaGraphNodeTypeMemset;
    p.memset = {device, 0, 20, sizeof(int), 1, 1};
    RT(cudaGraphAddNode(&nodes[0], graph, nullptr, nullptr, 0, &p));
    p = {};
    p.type = cudaGraphNodeTypeKernel;
    p.kernel.func = add_stub();
    p.kernel.gridDim = p.kernel.blockDim = dim3{1};
    p.kernel.kernelParams = five.args;
    RT(cudaGraphAddNode(&nodes[1], graph, &nodes[0], nullptr, 1, &p));
    p.kernel.func = &back;
    RT_RESULT(cudaGraphAddNode(&nodes[3], graph, nullptr, nullptr, 0, &p), cudaErrorInvalidDeviceFunction);
    p = {};
    p.type = cudaGraphNodeTypeMemcpy;
    p.memcpy.copyParams.srcPtr = {device, sizeof(int), sizeof(int), 1};
    p.memcpy.copyParams.dstPtr = {&back, sizeof(int), sizeof(int), 1};
    p.memcpy.copyParams.extent = {sizeof(int), 1, 1};
    p.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
    RT(cudaGraphAddNode(&nodes[2], graph, &nodes[1], nullptr, 1, &p));
    RT_RESULT(cudaGraphAddNode(&nodes[3], graph, nullptr, nullptr, 0, nullptr), cudaErrorInvalidValue);
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    RT(cudaGraphNodeGetType(nodes[2], &type));
    EXPECT(type == cudaGraphNodeTypeMemcpy);
    cudaGraphNode_t from[2] = {};
    cudaGraphNode_t to[2] = {};
    cudaGraphEdgeData edges[2] = {};
    std::size_t count = 2;
    RT(cudaGraphGetEdges(graph, from, to, edges, &count));
    EXPECT(count == 2);
    RT(cudaGraphInstantiate(&exec, graph, 0));
    launch_and_wait(exec);
    EXPECT(back == 25);
    const Addition six(device, 6);
    RT(cudaGraphKernelNodeSetParams(nodes[1], &six.params));
    cudaGraphExecUpdateResultInfo info{};
    RT(cudaGraphExecUpdate(exec, graph, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    launch_and_wait(exec);
    EXPECT(back == 26);
    return 0;
  });
}
