// Memory that graphs allocate. Documentation: CUDA Driver API, page "Graph Management"
// (cuGraphAddMemAllocNode), and CUDA C++ Programming Guide, "Graph Memory Nodes".

#include <catch2/catch.hpp>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

CUDA_MEM_ALLOC_NODE_PARAMS on_device_0(std::size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = bytes;
  return params;
}

CUgraphNode add_alloc(CUgraph graph, CUdeviceptr* out) {
  CUDA_MEM_ALLOC_NODE_PARAMS params = on_device_0(64);
  CUgraphNode node = nullptr;
  OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  *out = params.dptr;
  return node;
}

CUgraphNode add_free(CUgraph graph, CUgraphNode after, CUdeviceptr memory) {
  CUgraphNode node = nullptr;
  OK(cuGraphAddMemFreeNode(&node, graph, &after, after == nullptr ? 0 : 1, memory));
  return node;
}

cuuint64_t attribute(CUgraphMem_attribute which) {
  cuuint64_t value = 0;
  OK(cuDeviceGetGraphMemAttribute(0, which, &value));
  return value;
}

}  // namespace

TEST_CASE("graph memory: an allocation is used between its node and the free, at one address, every launch") {
  const int wrong = count_over_seeds(40, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(graph, &memory);
    const CUgraphNode fill = add_step(graph, {alloc}, step, memory, 0, 5);
    CUgraphNode copy = nullptr;
    const CUDA_MEMCPY3D params = linear_copy(out, memory, 4);
    OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &params, context()));
    add_free(graph, copy, memory);
    const CUgraphExec exec = instantiate(graph);
    const CUstream stream = new_stream();
    for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, stream));
    CUDA_MEM_ALLOC_NODE_PARAMS read{};
    OK(cuGraphMemAllocNodeGetParams(alloc, &read));
    EXPECT(read.dptr == memory && read.bytesize == 64);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    return int_at(out) == 5 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph memory: a kernel that is not ordered behind the allocation touches nothing that is there") {
  const int found = count_over_seeds(40, [] {
    const CUfunction step = step_kernel();
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    add_alloc(graph, &memory);
    add_step(graph, {}, step, memory, 0, 5);
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    return cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
  });
  REQUIRE(found > 0);
  REQUIRE(found < 40);
}

TEST_CASE("graph memory: what a graph does not free lives on, is freed once, and stops the next launch") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    add_alloc(graph, &memory);
    const CUgraphExec exec = instantiate(graph);
    const CUstream stream = new_stream();
    EXPECT_RESULT(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);  // not allocated yet
    EXPECT_RESULT(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemsetD32Async(memory, 3, 16, stream));
    EXPECT_RESULT(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(int_at(memory) == 3);
    OK(cuMemFreeAsync(memory, stream));
    EXPECT_RESULT(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemsetD32Async(memory, 4, 16, stream));  // the allocation outlives the graph
    EXPECT(int_at(memory) == 4);
    OK(cuMemFree(memory));
    EXPECT_RESULT(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    OK(cuDeviceGraphMemTrim(0));
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    return 0;
  });
}

TEST_CASE("graph memory: freeing on launch, and freeing by another graph") {
  const int wrong = count_over_seeds(20, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    add_alloc(graph, &memory);
    const CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    const CUgraph freeing = new_graph();
    add_free(freeing, nullptr, memory);
    const CUgraphExec free_exec = instantiate(freeing);
    const CUstream stream = new_stream();
    EXPECT_RESULT(cuGraphLaunch(free_exec, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemsetD32Async(memory, 3, 16, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(free_exec, stream));
    EXPECT_RESULT(cuGraphLaunch(free_exec, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph memory: an allocation has one free in its graph or in others, not both") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraph other = new_graph();
    CUdeviceptr own = 0;
    CUdeviceptr foreign = 0;
    const CUgraphNode a = add_alloc(graph, &own);
    const CUgraphNode b = add_alloc(graph, &foreign);
    add_free(graph, a, own);
    CUgraphNode node = nullptr;
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, graph, &a, 1, own), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, other, nullptr, 0, own), CUDA_ERROR_INVALID_VALUE);
    add_free(other, nullptr, foreign);
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, graph, &b, 1, foreign), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, other, nullptr, 0, 0x1234), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, other, nullptr, 0, new_ints(1)), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph memory: graphs with such nodes are neither cloned, cut, put into others nor made twice") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode a = add_alloc(graph, &memory);
    const CUgraphNode b = add_free(graph, a, memory);
    CUgraph clone = nullptr;
    CUgraphNode child = nullptr;
    CUgraphExec second = nullptr;
    EXPECT_RESULT(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddChildGraphNode(&child, new_graph(), nullptr, 0, graph), CUDA_ERROR_INVALID_VALUE);
    const CUgraphExec exec = instantiate(graph);
    EXPECT_RESULT(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiate(&second, graph, 0));
    CUDA_MEM_ALLOC_NODE_PARAMS params = on_device_0(0);
    EXPECT_RESULT(cuGraphAddMemAllocNode(&child, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params = on_device_0(1 << 30);
    EXPECT_RESULT(cuGraphAddMemAllocNode(&child, graph, nullptr, 0, &params), CUDA_ERROR_OUT_OF_MEMORY);
    params = on_device_0(64);
    params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_RESULT(cuGraphAddMemAllocNode(&child, graph, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    return 0;
  });
}

TEST_CASE("graph memory: captured allocations and frees become nodes; other memory cannot be freed there") {
  const int wrong = count_over_seeds(20, [] {
    const CUdeviceptr out = new_ints(1);
    const CUstream stream = new_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUdeviceptr memory = 0;
    OK(cuMemAllocAsync(&memory, 64, stream));
    OK(cuMemsetD32Async(memory, 9, 16, stream));
    OK(cuMemcpyDtoDAsync(out, memory, 4, stream));
    OK(cuMemFreeAsync(memory, stream));
    CUgraph graph = nullptr;
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT(nodes_of(graph).size() == 4 && edges_of(graph) == 3);
    const CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    EXPECT(int_at(out) == 9);
    OK(cuMemAllocAsync(&memory, 64, stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemFreeAsync(memory, stream));
    OK(cuCtxSynchronize());
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph memory: it is counted apart, and given back when no graph has it") {
  on_device({}, [] {
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(graph, &memory);
    add_free(graph, alloc, memory);
    const CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) > 0);
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) > 0);
    OK(cuCtxSynchronize());
    OK(cuDeviceGraphMemTrim(0));
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    cuuint64_t value = 1;
    EXPECT_RESULT(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value),
                  CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
    EXPECT(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 0);
    EXPECT_RESULT(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuDeviceGraphMemTrim(7), CUDA_ERROR_INVALID_DEVICE);
    return 0;
  });
}

TEST_CASE(
    "graph memory: a graph with such nodes can be moved into another, and is then no graph of its own") {
  const int wrong = count_over_seeds(20, [] {
    const CUdeviceptr out = new_ints(1);
    const CUgraph inner = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(inner, &memory);
    const CUgraphNode fill = add_step(inner, {alloc}, step_kernel(), memory, 0, 6);
    CUgraphNode copy = nullptr;
    const CUDA_MEMCPY3D params = linear_copy(out, memory, 4);
    OK(cuGraphAddMemcpyNode(&copy, inner, &fill, 1, &params, context()));
    add_free(inner, copy, memory);
    const CUgraph outer = new_graph();
    CUgraphNodeParams child{};
    child.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.graph.graph = inner;
    child.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    CUgraphNode node = nullptr;
    EXPECT_RESULT(cuGraphAddNode(&node, inner, nullptr, nullptr, 0, &child), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddNode(&node, outer, nullptr, nullptr, 0, &child));
    CUgraph owned = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(node, &owned));
    EXPECT(owned == inner);
    CUgraphExec exec = nullptr;
    CUgraphNode another = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS more = on_device_0(64);
    EXPECT_RESULT(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphInstantiate(&exec, inner, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddNode(&another, new_graph(), nullptr, nullptr, 0, &child),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphAddMemAllocNode(&another, inner, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);
    exec = instantiate(outer);
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuGraphDestroy(outer));
    return int_at(out) == 6 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph memory: freeing on launch waits for the launch before, also in another stream") {
  const int wrong = count_over_seeds(40, [] {
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(graph, &memory);
    const CUgraphNode fill = add_step(graph, {alloc}, step_kernel(), memory, 0, 5);
    CUgraphNode copy = nullptr;
    const CUDA_MEMCPY3D params = linear_copy(out, memory, 4);
    OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &params, context()));
    const CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, b));
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 1;
    return int_at(out) == 5 ? 0 : 2;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph memory: a race with its free is reported, of a call and of a node") {
  DeviceSetup setup;
  std::string text;
  setup.afterwards = [&](const simgpu::Machine& m) {
    REQUIRE(m.processes[0].report.races_total.load() > 0);
    text = m.processes[0].report.races[0].text;
  };
  on_device(setup, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    add_alloc(graph, &memory);
    const CUstream a = new_stream();
    OK(cuGraphLaunch(instantiate(graph), a));
    OK(cuStreamSynchronize(a));
    OK(cuMemsetD32Async(memory, 1, 16, a));
    OK(cuMemFreeAsync(memory, new_stream()));
    cuCtxSynchronize();
    return 0;
  });
  on_device(setup, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(graph, &memory);
    add_step(graph, {alloc}, step_kernel(), memory, 0, 5);
    add_free(graph, alloc, memory);
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    cuCtxSynchronize();
    return 0;
  });
  // Streams that the program does not know are not named.
  CAPTURE(text);
  CHECK(text.find(" of a graph in the legacy default stream") != std::string::npos);
  CHECK(text.find("depend on") != std::string::npos);
}

TEST_CASE("graph memory: the program has no handle of the pool that it comes from") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    add_alloc(graph, &memory);
    auto* pool = reinterpret_cast<CUmemoryPool>(1);
    OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
    EXPECT(pool == nullptr);
    return 0;
  });
}

TEST_CASE("graph memory: an allocation can be freed in its own graph when no other graph frees it any more") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    CUdeviceptr memory = 0;
    const CUgraphNode alloc = add_alloc(graph, &memory);
    const CUgraph other = new_graph();
    add_free(other, nullptr, memory);
    const CUgraphExec exec = instantiate(other);
    OK(cuGraphDestroy(other));
    CUgraphNode node = nullptr;
    EXPECT_RESULT(cuGraphAddMemFreeNode(&node, graph, &alloc, 1, memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    add_free(graph, alloc, memory);
    return 0;
  });
}
