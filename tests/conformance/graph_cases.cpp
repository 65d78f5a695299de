// Graphs as a whole: structure, instantiation, launch, update, clone.

#include "tests/conformance/graphs.h"

#define GRAPH "CUDA Driver API, Graph Management: "

namespace conformance {

CASE("graph.an_empty_graph_runs", GRAPH "cuGraphInstantiate, cuGraphLaunch") {
  use_device();
  run_graph(instantiate(make_graph()));
}

CASE("graph.creation_flags_must_be_zero", GRAPH "cuGraphCreate") {
  use_device();
  CUgraph graph = nullptr;
  REFUSES(CU(cuGraphCreate)(&graph, 1), CUDA_ERROR_INVALID_VALUE);
}

CASE("graph.nodes_and_edges_are_told", GRAPH "cuGraphGetNodes, cuGraphGetRootNodes, cuGraphGetEdges") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 1);
  const CUgraphNode two = add_affine(graph, {one}, memory, 64, 2, 0);
  const CUgraphNode three = add_affine(graph, {one, two}, memory, 64, 2, 0);
  EXPECT_EQ(nodes_of(graph).size(), 3u);
  EXPECT_EQ(edges_of(graph), 3u);
  CUgraphNode root = nullptr;
  std::size_t roots = 99;
  OK(CU(cuGraphGetRootNodes)(graph, nullptr, &roots));
  EXPECT_EQ(roots, 1u);
  OK(CU(cuGraphGetRootNodes)(graph, &root, &roots));
  EXPECT(roots == 1 && root == one);
  std::size_t count = 0;
  OK(CU(cuGraphNodeGetDependencies)(three, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  OK(CU(cuGraphNodeGetDependentNodes)(one, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
}

CASE("graph.a_longer_list_ends_with_nulls", GRAPH "cuGraphGetNodes") {
  use_device();
  const CUgraph graph = make_graph();
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  CUgraphNode list[3] = {node, node, node};
  std::size_t count = 3;
  OK(CU(cuGraphGetNodes)(graph, list, &count));
  EXPECT(count == 1 && list[0] == node && list[1] == nullptr && list[2] == nullptr);
}

CASE_ORDER("graph.dependencies_order_the_nodes", GRAPH "cuGraphAddKernelNode, cuGraphLaunch") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  CUgraphNode last = add_fill(graph, {}, memory, 1024, 1);
  for (unsigned i = 0; i < 6; ++i) last = add_affine(graph, {last}, memory, 1024, 1, i * i);
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 1024, 1 + 0 + 1 + 4 + 9 + 16 + 25);
  // Operations that do not commute tell every order apart.
  const CUgraph other = make_graph();
  last = add_fill(other, {}, memory, 1, 1);
  for (unsigned i = 1; i < 7; ++i) last = add_affine(other, {last}, memory, 1, 3, i);
  run_graph(instantiate(other));
  unsigned want = 1;
  for (unsigned i = 1; i < 7; ++i) want = want * 3 + i;
  EXPECT_EQ(read_word(memory), want);
}

CASE_ORDER("graph.a_join_waits_for_both_branches", GRAPH "cuGraphAddDependencies") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  unsigned count = 64;
  unsigned first = 5;
  unsigned slow = 20000;
  CUdeviceptr left = memory;
  void* params[] = {&left, &count, &first, &slow};
  const CUgraphNode a = add_kernel(graph, {}, kSlowFill, count, params);
  left = memory + 512;
  const CUgraphNode b = add_kernel(graph, {}, kSlowFill, count, params);
  const CUgraphNode join = add_affine(graph, {a}, memory, 256, 1, 100);
  OK(CU(cuGraphAddDependencies)(graph, &b, &join, nullptr, 1));
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 64, 105);
  EXPECT_WORDS(memory + 512, 64, 105);
}

CASE_ORDER("graph.launch_is_ordered_in_its_stream", GRAPH "cuGraphLaunch") {
  use_device();
  const CUdeviceptr memory = allocate(4);
  const CUgraph graph = make_graph();
  add_affine(graph, {}, memory, 1, 3, 1);
  const CUgraphExec exec = instantiate(graph);
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  slow_fill(memory, 1, 1, stream);
  OK(CU(cuGraphLaunch)(exec, stream));
  affine(memory, 1, 5, 3, stream);  // does not commute with 3 * x + 1
  OK(CU(cuGraphLaunch)(exec, stream));
  EXPECT_EQ(read_word(memory), ((1u * 3 + 1) * 5 + 3) * 3 + 1);
}

CASE_ORDER("graph.launches_of_one_exec_follow_each_other", GRAPH "cuGraphLaunch") {
  use_device();
  const CUdeviceptr one = allocate(4);
  const CUdeviceptr two = allocate(4);
  // The second root does not depend on what the first is followed by.
  const CUgraph graph = make_graph();
  const CUgraphNode left = add_affine(graph, {}, one, 1, 3, 1);
  const CUgraphNode right = add_affine(graph, {}, two, 1, 3, 1);
  add_affine(graph, {left, right}, two, 1, 5, 3);  // does not commute with 3 * x + 1
  const CUgraphExec exec = instantiate(graph);
  fill(one, 1, 1);
  fill(two, 1, 1);
  OK(CU(cuCtxSynchronize)());
  for (int i = 0; i < 6; ++i) OK(CU(cuGraphLaunch)(exec, make_stream(CU_STREAM_NON_BLOCKING)));
  unsigned want = 1;
  for (int i = 0; i < 6; ++i) want = (want * 3 + 1) * 5 + 3;
  EXPECT_EQ(read_word(two), want);
}

CASE("graph.an_exec_outlives_its_graph", GRAPH "cuGraphDestroy") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  add_fill(graph, {}, memory, 64, 9);
  const CUgraphExec exec = instantiate(graph);
  OK(CU(cuGraphDestroy)(graph));
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 9);
}

CASE_ORDER("graph.a_running_exec_may_be_destroyed", GRAPH "cuGraphExecDestroy") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  add_fill(graph, {}, memory, 64, 9);
  const CUgraphExec exec = instantiate(graph);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuGraphExecDestroy)(exec));
  EXPECT_WORDS(memory, 64, 9);
}

CASE("graph.changing_a_graph_does_not_change_its_exec", GRAPH "cuGraphKernelNodeSetParams") {
  use_device();
  CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_fill(graph, {}, memory, 64, 1);
  const CUgraphExec exec = instantiate(graph);
  unsigned count = 64;
  unsigned first = 2;
  void* params[] = {&memory, &count, &first};
  const CUDA_KERNEL_NODE_PARAMS changed = kernel_node(kFill, count, params);
  OK(CU(cuGraphKernelNodeSetParams)(node, &changed));
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 1);
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 64, 2);
}

CASE("graph.an_execs_node_can_be_changed", GRAPH "cuGraphExecKernelNodeSetParams") {
  use_device();
  CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_fill(graph, {}, memory, 64, 1);
  const CUgraphExec exec = instantiate(graph);
  unsigned count = 64;
  unsigned first = 3;
  void* params[] = {&memory, &count, &first};
  const CUDA_KERNEL_NODE_PARAMS changed = kernel_node(kFill, count, params);
  OK(CU(cuGraphExecKernelNodeSetParams)(exec, node, &changed));
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 3);
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 64, 1);
}

CASE("graph.update_takes_new_parameters", GRAPH "cuGraphExecUpdate") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  add_fill(graph, {}, memory, 64, 1);
  const CUgraphExec exec = instantiate(graph);
  const CUgraph other = make_graph();
  add_fill(other, {}, memory, 64, 4);
  CUgraphExecUpdateResultInfo info{};
  OK(CU(cuGraphExecUpdate)(exec, other, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 4);
}

CASE("graph.update_refuses_another_topology", GRAPH "cuGraphExecUpdate") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  add_fill(graph, {}, memory, 64, 1);
  const CUgraphExec exec = instantiate(graph);
  const CUgraph other = make_graph();
  add_affine(other, {add_fill(other, {}, memory, 64, 4)}, memory, 64, 1, 1);
  CUgraphExecUpdateResultInfo info{};
  REFUSES(CU(cuGraphExecUpdate)(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 1);
}

CASE("graph.update_refuses_another_kind_of_node", GRAPH "cuGraphExecUpdate") {
  use_device();
  const CUgraph graph = make_graph();
  add_fill(graph, {}, allocate(4 * kKiB), 64, 1);
  const CUgraphExec exec = instantiate(graph);
  const CUgraph other = make_graph();
  CUgraphNode empty = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&empty, other, nullptr, 0));
  CUgraphExecUpdateResultInfo info{};
  REFUSES(CU(cuGraphExecUpdate)(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT(info.errorNode == empty);
}

CASE("graph.a_clone_does_not_follow_the_original", GRAPH "cuGraphClone, cuGraphNodeFindInClone") {
  use_device();
  CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_fill(graph, {}, memory, 64, 1);
  CUgraph clone = nullptr;
  OK(CU(cuGraphClone)(&clone, graph));
  CUgraphNode cloned = nullptr;
  OK(CU(cuGraphNodeFindInClone)(&cloned, node, clone));
  EXPECT(cloned != nullptr && cloned != node);
  EXPECT_EQ(type_of(cloned), CU_GRAPH_NODE_TYPE_KERNEL);
  unsigned count = 64;
  unsigned first = 6;
  void* params[] = {&memory, &count, &first};
  const CUDA_KERNEL_NODE_PARAMS changed = kernel_node(kFill, count, params);
  OK(CU(cuGraphKernelNodeSetParams)(node, &changed));
  run_graph(instantiate(clone));
  EXPECT_WORDS(memory, 64, 1);
  OK(CU(cuGraphDestroy)(graph));
  EXPECT_EQ(nodes_of(clone).size(), 1u);
}

CASE("graph.a_destroyed_node_takes_its_edges_along", GRAPH "cuGraphDestroyNode") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 1);
  const CUgraphNode two = add_affine(graph, {one}, memory, 64, 1, 5);
  add_affine(graph, {two}, memory + 2048, 64, 1, 5);
  OK(CU(cuGraphDestroyNode)(two));
  EXPECT_EQ(nodes_of(graph).size(), 2u);
  EXPECT_EQ(edges_of(graph), 0u);
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 64, 1);
}

CASE("graph.edges_are_removed", GRAPH "cuGraphRemoveDependencies") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 1);
  const CUgraphNode two = add_fill(graph, {one}, memory + 2048, 64, 1);
  EXPECT_EQ(edges_of(graph), 1u);
  OK(CU(cuGraphRemoveDependencies)(graph, &one, &two, nullptr, 1));
  EXPECT_EQ(edges_of(graph), 0u);
}

CASE("graph.a_cycle_is_refused", GRAPH "cuGraphInstantiate, structural constraints") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 1);
  const CUgraphNode two = add_fill(graph, {one}, memory, 64, 1);
  const CUresult added = CU(cuGraphAddDependencies)(graph, &two, &one, nullptr, 1);
  CUgraphExec exec = nullptr;
  if (added == CUDA_SUCCESS) FAILS(CU(cuGraphInstantiate)(&exec, graph, 0));
}

CASE("graph.upload_does_not_run_it", GRAPH "cuGraphUpload") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  fill(memory, 64, 1);
  const CUgraph graph = make_graph();
  add_fill(graph, {}, memory, 64, 8);
  const CUgraphExec exec = instantiate(graph);
  OK(CU(cuGraphUpload)(exec, make_stream()));
  EXPECT_WORDS(memory, 64, 1);
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 8);
}

}  // namespace conformance
