// Changing executable graphs. Documentation: CUDA Driver API, page "Graph Management": cuGraphExecUpdate and
// the calls that set one node.

#include <catch2/catch.hpp>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

CUgraphExecUpdateResultInfo refused(CUgraphExec exec, CUgraph graph) {
  CUgraphExecUpdateResultInfo info{};
  EXPECT_RESULT(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  return info;
}

void launch_and_wait(CUgraphExec exec) {
  g_order.clear();
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
}

CUgraphNode add_memset(CUgraph graph, CUDA_MEMSET_NODE_PARAMS params) {
  CUgraphNode node = nullptr;
  OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context()));
  return node;
}

}  // namespace

TEST_CASE("graph update: an executable graph is a snapshot of its graph") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode node = add_host(graph, {}, 1);
    const CUgraphExec exec = instantiate(graph);
    const CUDA_HOST_NODE_PARAMS other = noting(2);
    OK(cuGraphHostNodeSetParams(node, &other));
    add_host(graph, {node}, 3);
    launch_and_wait(exec);
    EXPECT(g_order == std::vector<int>{1});
    return 0;
  });
}

TEST_CASE("graph update: one node is set for later launches only, and the graph keeps its own") {
  const int wrong = count_over_seeds(40, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode node = add_host(graph, {}, 1);
    const CUgraphExec exec = instantiate(graph);
    const CUgraphExec untouched = instantiate(graph);
    const CUstream stream = new_stream();
    OK(cuGraphLaunch(exec, stream));
    const CUDA_HOST_NODE_PARAMS other = noting(2);
    OK(cuGraphExecHostNodeSetParams(exec, node, &other));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(untouched, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(g_order == std::vector<int>({1, 2, 1}));
    CUDA_HOST_NODE_PARAMS read{};
    OK(cuGraphHostNodeGetParams(node, &read));
    return read.userData == noting(1).userData ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph update: a node must be one of the graph that the executable one was made of") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode node = add_host(graph, {}, 1);
    const CUgraphExec exec = instantiate(graph);
    const CUDA_HOST_NODE_PARAMS params = noting(2);
    EXPECT_RESULT(cuGraphExecHostNodeSetParams(exec, add_host(graph, {}, 1), &params),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphExecHostNodeSetParams(exec, add_host(new_graph(), {}, 1), &params),
                  CUDA_ERROR_INVALID_VALUE);
    CUevent event = nullptr;
    OK(cuEventCreate(&event, 0));
    EXPECT_RESULT(cuGraphExecEventRecordNodeSetEvent(exec, node, event), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroyNode(node));
    EXPECT_RESULT(cuGraphExecHostNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph update: kernels, copies and memsets take new addresses and values") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr a = new_ints(4);
    const CUdeviceptr b = new_ints(4);
    const CUgraph graph = new_graph();
    const CUgraphNode kernel = add_step(graph, {}, step, a, 0, 1);
    CUgraphNode copy = nullptr;
    CUDA_MEMCPY3D params = linear_copy(b, a, 4);
    OK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &params, context()));
    const CUgraphNode set = add_memset(graph, {a + 12, 0, 5, 4, 1, 1});
    const CUgraphExec exec = instantiate(graph);
    CUDA_KERNEL_NODE_PARAMS read{};
    OK(cuGraphKernelNodeGetParams(kernel, &read));
    int value = 7;
    read.kernelParams[2] = &value;
    OK(cuGraphExecKernelNodeSetParams(exec, kernel, &read));
    params.dstDevice = b + 4;
    OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &params, context()));
    const CUDA_MEMSET_NODE_PARAMS filled{b + 12, 0, 6, 4, 1, 1};
    OK(cuGraphExecMemsetNodeSetParams(exec, set, &filled, context()));
    launch_and_wait(exec);
    EXPECT(int_at(a) == 7 && int_at(b) == 0 && int_at(b + 4) == 7);
    EXPECT(int_at(a + 12) == 0 && int_at(b + 12) == 6);
    return 0;
  });
}

TEST_CASE("graph update: what one node may not become") {
  on_device({}, [] {
    const CUdeviceptr a = new_ints(64);
    const CUgraph graph = new_graph();
    CUDA_MEMCPY3D line = linear_copy(a, a + 64, 16);
    CUgraphNode copy = nullptr;
    OK(cuGraphAddMemcpyNode(&copy, graph, nullptr, 0, &line, context()));
    CUDA_MEMCPY3D rows = linear_copy(a + 128, a + 192, 4);
    rows.Height = 2;
    rows.srcPitch = rows.dstPitch = 8;
    CUgraphNode rows_node = nullptr;
    OK(cuGraphAddMemcpyNode(&rows_node, graph, nullptr, 0, &rows, context()));
    const CUgraphNode set = add_memset(graph, {a, 0, 1, 4, 4, 1});
    const CUgraphExec exec = instantiate(graph);
    EXPECT_RESULT(cuGraphExecMemcpyNodeSetParams(exec, copy, &rows, context()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphExecMemcpyNodeSetParams(exec, rows_node, &line, context()),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphExecMemcpyNodeSetParams(exec, rows_node, &rows, context()),
                  CUDA_ERROR_INVALID_VALUE);
    int host = 0;
    line = linear_copy(a, 0, 4);
    line.srcMemoryType = CU_MEMORYTYPE_HOST;
    line.srcHost = &host;
    EXPECT_RESULT(cuGraphExecMemcpyNodeSetParams(exec, copy, &line, context()), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS params{a, 0, 1, 4, 5, 1};
    EXPECT_RESULT(cuGraphExecMemsetNodeSetParams(exec, set, &params, context()), CUDA_ERROR_INVALID_VALUE);
    params = {a, 16, 1, 4, 4, 2};
    EXPECT_RESULT(cuGraphExecMemsetNodeSetParams(exec, set, &params, context()), CUDA_ERROR_INVALID_VALUE);
    params = {a, 0, 1, 2, 4, 1};
    EXPECT_RESULT(cuGraphExecMemsetNodeSetParams(exec, set, &params, context()), CUDA_ERROR_INVALID_VALUE);
    params = {a + 16, 0, 9, 4, 2, 1};
    OK(cuGraphExecMemsetNodeSetParams(exec, set, &params, context()));
    return 0;
  });
}

TEST_CASE("graph update: nodes are switched off and on again") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_step(graph, {}, step, out, 1, 1);
    const CUgraphNode b = add_step(graph, {a}, step, out, 1, 10);
    const CUgraphNode host = add_host(graph, {b}, 1);
    const CUgraphExec exec = instantiate(graph);
    unsigned enabled = 9;
    OK(cuGraphNodeGetEnabled(exec, a, &enabled));
    EXPECT(enabled == 1);
    OK(cuGraphNodeSetEnabled(exec, a, 0));
    OK(cuGraphNodeGetEnabled(exec, a, &enabled));
    EXPECT(enabled == 0);
    launch_and_wait(exec);
    EXPECT(int_at(out) == 10);
    OK(cuGraphNodeSetEnabled(exec, a, 2));
    launch_and_wait(exec);
    EXPECT(int_at(out) == 21);
    EXPECT_RESULT(cuGraphNodeSetEnabled(exec, host, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphNodeGetEnabled(exec, host, &enabled), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph update: a graph of the same shape gives all its parameters, also to child graphs") {
  on_device({}, [] {
    const auto build = [](int base, bool turned) {
      const CUgraph inner = new_graph();
      add_host(inner, {}, base + 3);
      const CUgraph graph = new_graph();
      // The order of creation does not matter, that of exit nodes and edges does.
      CUgraphNode a = nullptr;
      CUgraphNode b = nullptr;
      if (turned) b = add_host(graph, {}, base + 2);
      a = add_host(graph, {}, base + 1);
      if (!turned) b = add_host(graph, {}, base + 2);
      OK(cuGraphAddDependencies(graph, &a, &b, nullptr, 1));
      CUgraphNode child = nullptr;
      OK(cuGraphAddChildGraphNode(&child, graph, &b, 1, inner));
      return graph;
    };
    const CUgraphExec exec = instantiate(build(0, false));
    CUgraphExecUpdateResultInfo info{};
    OK(cuGraphExecUpdate(exec, build(10, true), &info));
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS && info.errorNode == nullptr);
    launch_and_wait(exec);
    EXPECT(g_order == std::vector<int>({11, 12, 13}));
    return 0;
  });
}

TEST_CASE("graph update: another shape is refused, with the node, and changes nothing") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_host(graph, {}, 1);
    const CUgraphNode b = add_host(graph, {a}, 2);
    add_host(graph, {a, b}, 3);
    const CUgraphExec exec = instantiate(graph);

    const CUgraph more = new_graph();
    add_host(more, {}, 11);
    CUgraphExecUpdateResultInfo info = refused(exec, more);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == nullptr);

    const CUgraph exits = new_graph();
    const CUgraphNode a2 = add_host(exits, {}, 11);
    add_host(exits, {a2}, 12);
    add_host(exits, {a2}, 13);
    info = refused(exec, exits);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode != nullptr);

    const CUgraph fewer = new_graph();
    const CUgraphNode a3 = add_host(fewer, {}, 11);
    const CUgraphNode b3 = add_host(fewer, {a3}, 12);
    const CUgraphNode c3 = add_host(fewer, {b3}, 13);
    info = refused(exec, fewer);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == c3);

    const CUgraph turned = new_graph();
    const CUgraphNode a4 = add_host(turned, {}, 11);
    const CUgraphNode b4 = add_host(turned, {a4}, 12);
    const CUgraphNode c4 = add_host(turned, {b4, a4}, 13);
    info = refused(exec, turned);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT(info.errorNode == c4 || info.errorNode == b4 || info.errorNode == a4);

    const CUgraph types = new_graph();
    const CUgraphNode a5 = add_host(types, {}, 11);
    const CUgraphNode b5 = add_empty(types, {a5});
    add_host(types, {a5, b5}, 13);
    info = refused(exec, types);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED && info.errorNode == b5);

    EXPECT_RESULT(cuGraphExecUpdate(exec, nullptr, &info), CUDA_ERROR_INVALID_VALUE);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR);
    EXPECT_RESULT(cuGraphExecUpdate(exec, graph, nullptr), CUDA_ERROR_INVALID_VALUE);
    launch_and_wait(exec);
    EXPECT(g_order == std::vector<int>({1, 2, 3}));
    return 0;
  });
}

TEST_CASE("graph update: parameters and attributes that may not change") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(8);
    const auto build = [&](unsigned width, int priority, bool cooperative) {
      const CUgraph graph = new_graph();
      const CUgraphNode kernel = add_step(graph, {}, step, out, 0, 1);
      CUkernelNodeAttrValue value{};
      value.priority = priority;
      OK(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
      value = {};
      value.cooperative = cooperative ? 1 : 0;
      OK(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
      add_memset(graph, {out, 0, 1, 4, width, 1});
      return graph;
    };
    const CUgraphExec plain = instantiate(build(2, 0, false));
    const CUgraphExec by_priority =
        instantiate(build(2, 0, false), CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    CUgraphExecUpdateResultInfo info{};
    OK(cuGraphExecUpdate(plain, build(2, -1, false), &info));
    EXPECT(refused(by_priority, build(2, -1, false)).result == CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    EXPECT(refused(plain, build(2, 0, true)).result == CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    EXPECT(refused(plain, build(3, 0, false)).result == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    OK(cuGraphExecUpdate(plain, build(1, 0, false), &info));
    return 0;
  });
}
