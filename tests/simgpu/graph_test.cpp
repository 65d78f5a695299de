// Graphs: nodes, edges, clones and what instantiation refuses. Documentation: CUDA Driver API, page "Graph
// Management".

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

const auto kBogusGraph = reinterpret_cast<CUgraph>(0x1234);
const auto kBogusNode = reinterpret_cast<CUgraphNode>(0x1234);

}  // namespace

TEST_CASE("graph: nodes, root nodes and edges are listed in the order of their creation") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    std::size_t count = 9;
    OK(cuGraphGetNodes(graph, nullptr, &count));
    EXPECT(count == 0);
    const CUgraphNode a = add_empty(graph, {});
    const CUgraphNode b = add_empty(graph, {});
    const CUgraphNode c = add_empty(graph, {b, a});
    EXPECT(nodes_of(graph) == std::vector<CUgraphNode>({a, b, c}));
    CUgraphNode out[4] = {c, c, c, c};
    count = 4;
    OK(cuGraphGetRootNodes(graph, out, &count));
    EXPECT(count == 2 && out[0] == a && out[1] == b && out[2] == nullptr && out[3] == nullptr);
    count = 1;
    OK(cuGraphGetNodes(graph, out, &count));
    EXPECT(count == 1 && out[0] == a && out[1] == b);
    CUgraphNode from[3] = {};
    CUgraphNode to[3] = {};
    count = 3;
    OK(cuGraphGetEdges(graph, from, to, nullptr, &count));
    EXPECT(count == 2 && to[0] == c && to[1] == c && to[2] == nullptr);
    EXPECT((from[0] == a && from[1] == b) || (from[0] == b && from[1] == a));
    count = 2;
    CUgraphEdgeData data[2] = {};
    OK(cuGraphNodeGetDependencies(c, out, data, &count));
    EXPECT(count == 2 && out[0] == b && out[1] == a);
    count = 2;
    OK(cuGraphNodeGetDependentNodes(a, out, nullptr, &count));
    EXPECT(count == 1 && out[0] == c && out[1] == nullptr);
    EXPECT_RESULT(cuGraphGetEdges(graph, from, nullptr, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphNodeGetDependencies(c, nullptr, data, &count), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphGetNodes(graph, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphGetNodes(kBogusGraph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: dependencies have no duplicates, no strangers and only default edge data") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraph other = new_graph();
    const CUgraphNode a = add_empty(graph, {});
    const CUgraphNode stranger = add_empty(other, {});
    CUgraphNode node = nullptr;
    const CUgraphNode twice[] = {a, a};
    EXPECT_RESULT(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddEmptyNode(&node, graph, &stranger, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddEmptyNode(&node, graph, &kBogusNode, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddEmptyNode(&node, graph, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddEmptyNode(nullptr, graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddEmptyNode(&node, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(nodes_of(graph).size() == 1);
    const CUgraphNode b = add_empty(graph, {});
    CUgraphEdgeData data{};
    data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    EXPECT_RESULT(cuGraphAddDependencies(graph, &a, &b, &data, 1), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuGraphAddDependencies(graph, &a, &stranger, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddDependencies(graph, &a, &a, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddDependencies(graph, nullptr, nullptr, nullptr, 0));
    data = {};
    OK(cuGraphAddDependencies(graph, &a, &b, &data, 1));
    EXPECT_RESULT(cuGraphAddDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 1);
    EXPECT_RESULT(cuGraphRemoveDependencies(graph, &b, &a, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
    EXPECT_RESULT(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 0);
    return 0;
  });
}

TEST_CASE("graph: edges are added and removed all or none") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_empty(graph, {});
    const CUgraphNode b = add_empty(graph, {});
    const CUgraphNode c = add_empty(graph, {b});
    const CUgraphNode from[] = {a, b};
    const CUgraphNode to[] = {b, c};
    EXPECT_RESULT(cuGraphAddDependencies(graph, from, to, nullptr, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 1);
    EXPECT_RESULT(cuGraphRemoveDependencies(graph, from, to, nullptr, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 1);
    return 0;
  });
}

TEST_CASE("graph: a destroyed node takes its edges with it, and its handle is dead") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_empty(graph, {});
    const CUgraphNode b = add_empty(graph, {a});
    const CUgraphNode c = add_empty(graph, {b});
    OK(cuGraphDestroyNode(b));
    CUgraphNodeType type{};
    EXPECT_RESULT(cuGraphNodeGetType(b, &type), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 0 && nodes_of(graph) == std::vector<CUgraphNode>({a, c}));
    OK(cuGraphDestroy(graph));
    EXPECT_RESULT(cuGraphDestroyNode(a), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    CUgraph another = nullptr;
    EXPECT_RESULT(cuGraphCreate(&another, 1), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: a cycle can be built but not instantiated, and a node of it is named") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_empty(graph, {});
    const CUgraphNode b = add_empty(graph, {a});
    const CUgraphNode c = add_empty(graph, {b});
    OK(cuGraphAddDependencies(graph, &c, &b, nullptr, 1));
    CUgraphExec exec = nullptr;
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    EXPECT_RESULT(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    EXPECT(params.hErrNode_out == b || params.hErrNode_out == c);
    // Also inside a child graph, and also where nothing leads into the cycle.
    OK(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
    const CUgraph parent = new_graph();
    CUgraphNode child = nullptr;
    OK(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
    EXPECT_RESULT(cuGraphInstantiateWithParams(&exec, parent, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    OK(cuGraphRemoveDependencies(graph, &c, &b, nullptr, 1));
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && params.hErrNode_out == nullptr);
    return 0;
  });
}

TEST_CASE("graph: flags of instantiation") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    add_empty(graph, {});
    CUgraphExec exec = nullptr;
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph, 1 << 10), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                  CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph,
                                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                         CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
                  CUDA_ERROR_INVALID_VALUE);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    params.hUploadStream = new_stream();
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    cuuint64_t flags = 0;
    OK(cuGraphExecGetFlags(exec, &flags));
    EXPECT(flags == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    OK(cuGraphExecDestroy(exec));
    EXPECT_RESULT(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphExecGetFlags(exec, &flags), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphInstantiate(&exec, kBogusGraph, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphInstantiate(nullptr, graph, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: a clone is independent, and its nodes are found by the originals") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_host(graph, {}, 1);
    const CUgraphNode b = add_host(graph, {a}, 2);
    CUgraph clone = nullptr;
    OK(cuGraphClone(&clone, graph));
    CUgraphNode a2 = nullptr;
    CUgraphNode b2 = nullptr;
    OK(cuGraphNodeFindInClone(&a2, a, clone));
    OK(cuGraphNodeFindInClone(&b2, b, clone));
    EXPECT(a2 != a && b2 != b && nodes_of(clone) == std::vector<CUgraphNode>({a2, b2}));
    const CUDA_HOST_NODE_PARAMS other = noting(7);
    OK(cuGraphHostNodeSetParams(a, &other));
    CUDA_HOST_NODE_PARAMS read{};
    OK(cuGraphHostNodeGetParams(a2, &read));
    EXPECT(read.userData == noting(1).userData && read.fn == &note);
    OK(cuGraphDestroyNode(b2));
    EXPECT_RESULT(cuGraphNodeFindInClone(&b2, b, clone), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges_of(graph) == 1);
    const CUgraphNode later = add_empty(graph, {});
    EXPECT_RESULT(cuGraphNodeFindInClone(&b2, later, clone), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    EXPECT(nodes_of(clone).size() == 1);
    return 0;
  });
}

TEST_CASE("graph: a child graph is a copy that the node owns and that can be changed through its handle") {
  on_device({}, [] {
    const CUgraph inner = new_graph();
    add_host(inner, {}, 1);
    const CUgraph outer = new_graph();
    CUgraphNode node = nullptr;
    OK(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
    add_host(inner, {}, 9);  // after the copy
    CUgraph owned = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(node, &owned));
    EXPECT(owned != inner && nodes_of(owned).size() == 1);
    EXPECT_RESULT(cuGraphDestroy(owned), CUDA_ERROR_INVALID_VALUE);
    add_host(owned, nodes_of(owned), 2);
    add_host(outer, {node}, 3);
    OK(cuGraphLaunch(instantiate(outer), nullptr));
    OK(cuCtxSynchronize());
    EXPECT(g_order == std::vector<int>({1, 2, 3}));
    OK(cuGraphDestroy(outer));
    std::size_t count = 0;
    EXPECT_RESULT(cuGraphGetNodes(owned, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: types that are not there say so, and unused bytes must be zero") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    EXPECT_RESULT(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    params.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    EXPECT_RESULT(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host.fn = &note;
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    CUgraphNodeType type{};
    OK(cuGraphNodeGetType(node, &type));
    EXPECT(type == CU_GRAPH_NODE_TYPE_HOST);
    params.reserved2 = 1;
    EXPECT_RESULT(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.reserved2 = 0;
    params.reserved0[1] = 1;
    EXPECT_RESULT(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    params.reserved0[1] = 0;
    OK(cuGraphNodeSetParams(node, &params));
    params.type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_RESULT(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.host.fn = nullptr;
    EXPECT_RESULT(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);  // a host node
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    return 0;
  });
}
