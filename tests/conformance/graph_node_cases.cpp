// The kinds of nodes of a graph.

#include "tests/conformance/graphs.h"

#define GRAPH "CUDA Driver API, Graph Management: "

namespace conformance {
namespace {

void note(void* place) {
  *static_cast<unsigned*>(place) += 1;
}

CUDA_MEMCPY3D linear(CUmemorytype from, CUdeviceptr src, CUmemorytype to, CUdeviceptr dst,
                     std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from;
  copy.dstMemoryType = to;
  copy.srcHost = reinterpret_cast<void*>(src);
  copy.dstHost = reinterpret_cast<void*>(dst);
  copy.srcDevice = src;
  copy.dstDevice = dst;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEM_ALLOC_NODE_PARAMS allocation(std::size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = bytes;
  return params;
}

CUcontext prepare() {
  return use_device();
}

}  // namespace

CASE("graph_node.kernel_parameters_are_copied_when_it_is_added", GRAPH "cuGraphAddKernelNode") {
  prepare();
  CUdeviceptr memory = allocate(4 * kKiB);
  unsigned count = 64;
  unsigned first = 5;
  void* params[] = {&memory, &count, &first};
  const CUgraph graph = make_graph();
  add_kernel(graph, {}, kFill, count, params);
  first = 99;
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory, 64, 5);
}

CASE("graph_node.kernel_parameters_are_read_out", GRAPH "cuGraphKernelNodeGetParams") {
  prepare();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_fill(graph, {}, memory, 300, 5);
  CUDA_KERNEL_NODE_PARAMS told{};
  OK(CU(cuGraphKernelNodeGetParams)(node, &told));
  EXPECT_EQ(told.gridDimX, blocks_for(300));
  EXPECT_EQ(told.blockDimX, kBlock);
  EXPECT(told.func == function_of(kFill) || told.kern != nullptr);
  EXPECT(told.kernelParams != nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(told.kernelParams[0]), memory);
  EXPECT_EQ(*static_cast<unsigned*>(told.kernelParams[1]), 300u);
  EXPECT_EQ(*static_cast<unsigned*>(told.kernelParams[2]), 5u);
}

CASE("graph_node.kernel_shapes_are_checked", GRAPH "cuGraphAddKernelNode") {
  prepare();
  CUDA_KERNEL_NODE_PARAMS node = kernel_node(kNothing, 1, nullptr);
  node.blockDimX = 4096;
  CUgraphNode added = nullptr;
  const CUgraph graph = make_graph();
  const CUresult result = CU(cuGraphAddKernelNode)(&added, graph, nullptr, 0, &node);
  CUgraphExec exec = nullptr;
  if (result == CUDA_SUCCESS) FAILS(CU(cuGraphInstantiate)(&exec, graph, 0));
}

CASE("graph_node.types_are_told", GRAPH "cuGraphNodeGetType") {
  prepare();
  const CUgraph graph = make_graph();
  CUgraphNode node = nullptr;
  EXPECT_EQ(type_of(add_fill(graph, {}, allocate(4 * kKiB), 64, 1)), CU_GRAPH_NODE_TYPE_KERNEL);
  OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_EMPTY);
  unsigned seen = 0;
  const CUDA_HOST_NODE_PARAMS host{&note, &seen};
  OK(CU(cuGraphAddHostNode)(&node, graph, nullptr, 0, &host));
  EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_HOST);
  OK(CU(cuGraphAddEventRecordNode)(&node, graph, nullptr, 0, make_event()));
  EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  OK(CU(cuGraphAddEventWaitNode)(&node, graph, nullptr, 0, make_event()));
  EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  OK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, make_graph()));
  EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
}

CASE_ORDER("graph_node.copies_run_where_they_stand", GRAPH "cuGraphAddMemcpyNode") {
  const CUcontext context = prepare();
  const CUdeviceptr memory = allocate(8 * kKiB);
  unsigned* host = pinned_words(64);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 3);
  CUgraphNode two = nullptr;
  CUgraphNode three = nullptr;
  const auto out = reinterpret_cast<CUdeviceptr>(host);
  CUDA_MEMCPY3D copy = linear(CU_MEMORYTYPE_DEVICE, memory, CU_MEMORYTYPE_DEVICE, memory + 4 * kKiB, 256);
  OK(CU(cuGraphAddMemcpyNode)(&two, graph, &one, 1, &copy, context));
  copy = linear(CU_MEMORYTYPE_DEVICE, memory + 4 * kKiB, CU_MEMORYTYPE_HOST, out, 256);
  OK(CU(cuGraphAddMemcpyNode)(&three, graph, &two, 1, &copy, context));
  run_graph(instantiate(graph));
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(host[i], 3 + i);
  CUDA_MEMCPY3D told{};
  OK(CU(cuGraphMemcpyNodeGetParams)(two, &told));
  EXPECT(told.srcDevice == memory && told.WidthInBytes == 256);
}

CASE_ORDER("graph_node.memsets_run_where_they_stand", GRAPH "cuGraphAddMemsetNode") {
  const CUcontext context = prepare();
  const CUdeviceptr memory = allocate(4 * kKiB);
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = memory;
  set.elementSize = 4;
  set.value = 41;
  set.width = 64;
  set.height = 1;
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 128, 7);
  CUgraphNode two = nullptr;
  OK(CU(cuGraphAddMemsetNode)(&two, graph, &one, 1, &set, context));
  add_affine(graph, {two}, memory, 128, 1, 1);
  run_graph(instantiate(graph));
  for (const unsigned word : read_words(memory, 64)) EXPECT_EQ(word, 42u);
  EXPECT_WORDS(memory + 256, 64, 7 + 64 + 1);
  CUDA_MEMSET_NODE_PARAMS told{};
  OK(CU(cuGraphMemsetNodeGetParams)(two, &told));
  EXPECT(told.dst == memory && told.value == 41 && told.elementSize == 4 && told.width == 64);
}

CASE("graph_node.memset_elements_have_1_2_or_4_bytes", GRAPH "cuGraphAddMemsetNode") {
  const CUcontext context = prepare();
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = allocate(4 * kKiB);
  set.dst += 2 * (set.dst % 3);  // a multiple of 3: the address is none to refuse
  set.elementSize = 3;
  set.width = 16;
  set.height = 1;
  CUgraphNode node = nullptr;
  REFUSES(CU(cuGraphAddMemsetNode)(&node, make_graph(), nullptr, 0, &set, context), CUDA_ERROR_INVALID_VALUE);
}

CASE_ORDER("graph_node.host_functions_run_where_they_stand", GRAPH "cuGraphAddHostNode") {
  prepare();
  unsigned* seen = pinned_words(1);
  *seen = 0;
  const CUDA_HOST_NODE_PARAMS host{&note, seen};
  const CUgraph graph = make_graph();
  const auto place = reinterpret_cast<CUdeviceptr>(seen);
  const CUgraphNode one = add_fill(graph, {}, place, 1, 10);
  CUgraphNode two = nullptr;
  OK(CU(cuGraphAddHostNode)(&two, graph, &one, 1, &host));
  add_affine(graph, {two}, place, 1, 3, 0);
  const CUgraphExec exec = instantiate(graph);
  run_graph(exec);
  EXPECT_EQ(*seen, 33u);
  run_graph(exec);
  EXPECT_EQ(*seen, 33u);
  CUDA_HOST_NODE_PARAMS told{};
  OK(CU(cuGraphHostNodeGetParams)(two, &told));
  EXPECT(told.fn == &note && told.userData == seen);
}

CASE_ORDER("graph_node.a_child_graph_runs_as_one_node", GRAPH "cuGraphAddChildGraphNode") {
  prepare();
  const CUdeviceptr memory = allocate(4);
  const CUgraph child = make_graph();
  // No two of the three commute.
  add_affine(child, {add_affine(child, {}, memory, 1, 3, 1)}, memory, 1, 5, 3);
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 1, 1);
  CUgraphNode two = nullptr;
  OK(CU(cuGraphAddChildGraphNode)(&two, graph, &one, 1, child));
  add_affine(graph, {two}, memory, 1, 7, 5);
  OK(CU(cuGraphDestroy)(child));
  run_graph(instantiate(graph));
  EXPECT_EQ(read_word(memory), ((1u * 3 + 1) * 5 + 3) * 7 + 5);
}

CASE_ORDER("graph_node.event_nodes_record_and_wait",
           GRAPH "cuGraphAddEventRecordNode, cuGraphAddEventWaitNode") {
  prepare();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUevent event = make_event();
  const CUgraph graph = make_graph();
  const CUgraphNode one = add_fill(graph, {}, memory, 64, 3);
  CUgraphNode two = nullptr;
  OK(CU(cuGraphAddEventRecordNode)(&two, graph, &one, 1, event));
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuGraphLaunch)(instantiate(graph), stream));
  OK(CU(cuStreamWaitEvent)(other, event, 0));
  affine(memory, 64, 1, 10, other);
  EXPECT_WORDS(memory, 64, 13);
  slow_fill(memory, 64, 20, stream);
  OK(CU(cuEventRecord)(event, stream));
  const CUgraph waiting = make_graph();
  OK(CU(cuGraphAddEventWaitNode)(&two, waiting, nullptr, 0, event));
  add_affine(waiting, {two}, memory, 64, 1, 5);
  OK(CU(cuGraphLaunch)(instantiate(waiting), other));
  EXPECT_WORDS(memory, 64, 25);
}

CASE("graph_node.allocated_memory_has_one_address", GRAPH "cuGraphAddMemAllocNode, cuGraphAddMemFreeNode") {
  prepare();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  const CUdeviceptr out = allocate(4 * kKiB);
  const CUgraph graph = make_graph();
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(kMiB);
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
  EXPECT(params.dptr != 0);
  const CUgraphNode filled = add_fill(graph, {node}, params.dptr, 1024, 4);
  CUdeviceptr in = params.dptr;
  CUdeviceptr to = out;
  unsigned count = 1024;
  void* words[] = {&in, &to, &count};
  const CUgraphNode copied = add_kernel(graph, {filled}, kCopy, count, words);
  CUgraphNode freed = nullptr;
  OK(CU(cuGraphAddMemFreeNode)(&freed, graph, &copied, 1, params.dptr));
  EXPECT_EQ(type_of(freed), CU_GRAPH_NODE_TYPE_MEM_FREE);
  const CUgraphExec exec = instantiate(graph);
  run_graph(exec);
  run_graph(exec);
  EXPECT_WORDS(out, 1024, 4);
}

CASE("graph_node.memory_is_freed_once_in_a_graph", GRAPH "cuGraphAddMemFreeNode") {
  prepare();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  const CUgraph graph = make_graph();
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(kMiB);
  CUgraphNode node = nullptr;
  CUgraphNode freed = nullptr;
  OK(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
  OK(CU(cuGraphAddMemFreeNode)(&freed, graph, &node, 1, params.dptr));
  REFUSES(CU(cuGraphAddMemFreeNode)(&freed, graph, &node, 1, params.dptr), CUDA_ERROR_INVALID_VALUE);
}

CASE("graph_node.only_memory_of_graphs_is_freed_by_nodes", GRAPH "cuGraphAddMemFreeNode") {
  prepare();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  CUgraphNode freed = nullptr;
  REFUSES(CU(cuGraphAddMemFreeNode)(&freed, make_graph(), nullptr, 0, allocate(kMiB)),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("graph_node.unfreed_memory_is_used_after_the_launch", GRAPH "cuGraphAddMemAllocNode") {
  prepare();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  const CUgraph graph = make_graph();
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(kMiB);
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
  const CUgraphExec exec = instantiate(graph);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  fill(params.dptr, 1024, 6, stream);
  EXPECT_WORDS(params.dptr, 1024, 6);
  REFUSES(CU(cuGraphLaunch)(exec, stream), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFreeAsync)(params.dptr, stream));
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

CASE("graph_node.allocating_graphs_are_not_cloned_nor_instantiated_twice", GRAPH "cuGraphAddMemAllocNode") {
  prepare();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  const CUgraph graph = make_graph();
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(kMiB);
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
  CUgraph clone = nullptr;
  REFUSES(CU(cuGraphClone)(&clone, graph), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
  EXPECT(REMARK(CU(cuGraphDestroyNode)(node)) != CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  CUgraphExec second = nullptr;
  EXPECT(REMARK(CU(cuGraphInstantiate)(&second, graph, 0)) != CUDA_SUCCESS);
  OK(CU(cuGraphExecDestroy)(exec));
  instantiate(graph);
}

}  // namespace conformance
