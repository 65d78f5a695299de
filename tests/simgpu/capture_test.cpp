// Stream capture: what becomes a node, and how streams fork and join. Documentation: CUDA Driver API, page
// "Stream Management", and CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture".

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

CUstream begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL,
               unsigned flags = CU_STREAM_NON_BLOCKING) {
  const CUstream stream = new_stream(flags);
  OK(cuStreamBeginCapture(stream, mode));
  return stream;
}

CUgraph end(CUstream stream) {
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(stream, &graph));
  EXPECT(graph != nullptr);
  return graph;
}

CUevent new_event() {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

/// `to` waits for what `from` has captured so far.
void follow(CUstream to, CUstream from) {
  const CUevent event = new_event();
  OK(cuEventRecord(event, from));
  OK(cuStreamWaitEvent(to, event, 0));
}

CUgraphNodeType type_of(CUgraphNode node) {
  CUgraphNodeType type{};
  OK(cuGraphNodeGetType(node, &type));
  return type;
}

std::vector<CUgraphNode> next_after(CUstream stream) {
  CUstreamCaptureStatus status{};
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 0;
  OK(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &data, &count));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  for (std::size_t i = 0; i < count; ++i) EXPECT(data[i].type == 0);
  return {nodes, nodes + count};
}

constexpr std::uint64_t kSeeds = 50;

}  // namespace

TEST_CASE("capture: a stream's work becomes nodes in its order, with the parameters of the call") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    CUdeviceptr memory = new_ints(4);
    const CUdeviceptr first = memory;
    const CUstream stream = begin();
    int factor = 0;
    int value = 3;
    void* arguments[] = {&memory, &factor, &value};
    OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    value = 9;
    memory = 0;
    OK(cuMemcpyDtoDAsync(first + 4, first, 4, stream));
    OK(cuMemsetD16Async(first + 8, 0x1111, 2, stream));
    run(stream, 7);
    const CUgraph graph = end(stream);
    const std::vector<CUgraphNode> nodes = nodes_of(graph);
    EXPECT(nodes.size() == 4 && edges_of(graph) == 3);
    EXPECT(type_of(nodes[0]) == CU_GRAPH_NODE_TYPE_KERNEL && type_of(nodes[1]) == CU_GRAPH_NODE_TYPE_MEMCPY);
    EXPECT(type_of(nodes[2]) == CU_GRAPH_NODE_TYPE_MEMSET && type_of(nodes[3]) == CU_GRAPH_NODE_TYPE_HOST);
    CUDA_KERNEL_NODE_PARAMS kernel{};
    OK(cuGraphKernelNodeGetParams(nodes[0], &kernel));
    EXPECT(kernel.func == step && kernel.ctx == context() && kernel.gridDimX == 1);
    EXPECT(*static_cast<CUdeviceptr*>(kernel.kernelParams[0]) == first);
    EXPECT(*static_cast<int*>(kernel.kernelParams[2]) == 3);
    CUDA_MEMCPY3D copy{};
    OK(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
    EXPECT(copy.dstDevice == first + 4 && copy.srcDevice == first && copy.WidthInBytes == 4);
    EXPECT(copy.Height == 1 && copy.Depth == 1 && copy.dstMemoryType == CU_MEMORYTYPE_DEVICE);
    CUDA_MEMSET_NODE_PARAMS set{};
    OK(cuGraphMemsetNodeGetParams(nodes[2], &set));
    EXPECT(set.dst == first + 8 && set.elementSize == 2 && set.width == 2 && set.height == 1);
    EXPECT(int_at(first) == 0 && g_order.empty());
    OK(cuGraphLaunch(instantiate(graph), stream));
    EXPECT(int_at(first) == 3 && int_at(first + 4) == 3 && int_at(first + 8) == 0x11111111);
    EXPECT(g_order == std::vector<int>{7});
    return 0;
  });
}

TEST_CASE("capture: copies of rows and from pageable memory are captured whole and read when they run") {
  on_device({}, [] {
    const CUdeviceptr memory = new_ints(64);
    int rows[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    const CUstream stream = begin();
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = rows;
    copy.srcPitch = sizeof rows[0];
    copy.srcXInBytes = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = 32;
    copy.dstY = 1;
    copy.WidthInBytes = 8;
    copy.Height = 2;
    OK(cuMemcpy2DAsync(&copy, stream));
    const CUgraphExec exec = instantiate(end(stream));
    rows[1][1] = 60;
    OK(cuGraphLaunch(exec, stream));
    EXPECT(int_at(memory) == 0 && int_at(memory + 32) == 2 && int_at(memory + 36) == 3);
    EXPECT(int_at(memory + 64) == 60 && int_at(memory + 68) == 7 && int_at(memory + 72) == 0);
    return 0;
  });
}

TEST_CASE("capture: forks and joins by events give the edges, and only those") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUstream origin = begin();
    const CUstream a = new_stream();
    const CUstream b = new_stream(CU_STREAM_DEFAULT);
    run(origin, 1);
    follow(a, origin);
    follow(b, origin);
    run(a, 2);
    run(b, 3);
    run(origin, 4);
    follow(a, b);  // joined by way of a
    run(a, 5);
    follow(origin, a);
    run(origin, 6);
    const CUgraph graph = end(origin);
    EXPECT(nodes_of(graph).size() == 6 && edges_of(graph) == 7);
    CUstreamCaptureStatus status{};
    OK(cuStreamIsCapturing(b, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphLaunch(instantiate(graph), b));
    OK(cuStreamSynchronize(b));
    bool good = g_order.size() == 6 && g_order.front() == 1 && g_order.back() == 6;
    good = good && before(2, 5) && before(3, 5);
    return good ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("capture: an event stands for what was captured when it was recorded") {
  on_device({}, [] {
    const CUstream origin = begin();
    const CUstream side = new_stream();
    const CUevent event = new_event();
    run(origin, 1);
    OK(cuEventRecord(event, origin));
    const std::vector<CUgraphNode> first = next_after(origin);
    run(origin, 2);
    OK(cuStreamWaitEvent(side, event, 0));
    EXPECT(first.size() == 1 && next_after(side) == first && next_after(origin) != first);
    OK(cuStreamWaitEvent(origin, event, 0));  // adds the older node to the set
    EXPECT(next_after(origin).size() == 2);
    run(side, 3);
    follow(origin, side);
    end(origin);
    return 0;
  });
}

TEST_CASE("capture: the dependency set can be read, added to and replaced") {
  on_device({}, [] {
    const CUstream stream = begin();
    EXPECT(next_after(stream).empty());
    run(stream, 1);
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    cuuint64_t id = 0;
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr, nullptr));
    EXPECT(id != 0 && graph != nullptr);
    // Nodes may be added to the graph while it is captured into; destruction has to wait.
    CUgraphNode extra = add_host(graph, {}, 2);
    OK(cuStreamUpdateCaptureDependencies(stream, &extra, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    EXPECT(next_after(stream).size() == 2);
    OK(cuStreamUpdateCaptureDependencies(stream, &extra, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    EXPECT(next_after(stream) == std::vector<CUgraphNode>{extra});
    EXPECT_RESULT(cuStreamUpdateCaptureDependencies(stream, &extra, nullptr, 1, 2), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode stranger = add_host(new_graph(), {}, 3);
    EXPECT_RESULT(cuStreamUpdateCaptureDependencies(stream, &stranger, nullptr, 1, 0),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphDestroyNode(extra), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = nullptr;
    EXPECT_RESULT(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    run(stream, 4);
    EXPECT(end(stream) == graph);  // node 1, which was taken out of the set, need not be joined
    EXPECT(nodes_of(graph).size() == 3 && edges_of(graph) == 1);
    EXPECT_RESULT(cuStreamUpdateCaptureDependencies(stream, &extra, nullptr, 1, 0), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuGraphDestroy(graph));
    return 0;
  });
}

TEST_CASE("capture: into a graph that is there, behind nodes of it") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    const CUgraphNode root = add_host(graph, {}, 1);
    add_host(graph, {}, 9);
    const CUstream stream = new_stream();
    OK(cuStreamBeginCaptureToGraph(stream, graph, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_RESULT(cuStreamBeginCaptureToGraph(new_stream(), graph, nullptr, nullptr, 0,
                                              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  CUDA_ERROR_INVALID_VALUE);
    run(stream, 2);
    EXPECT_RESULT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT(end(stream) == graph);
    EXPECT(nodes_of(graph).size() == 3 && edges_of(graph) == 1);
    OK(cuGraphLaunch(instantiate(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(g_order.size() == 3 && before(1, 2));
    // A broken sequence leaves the graph with its owner.
    OK(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph none = graph;
    EXPECT_RESULT(cuStreamEndCapture(stream, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(none == nullptr);
    OK(cuGraphDestroy(graph));
    return 0;
  });
}

TEST_CASE("capture: leaving it keeps the order of what was queued before and after") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUstream stream = new_stream();
    run(stream, 1);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    run(stream, 2);
    end(stream);
    run(stream, 3);
    OK(cuStreamSynchronize(stream));
    return g_order == std::vector<int>({1, 3}) ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("capture: external events become nodes, and the flags mean nothing outside") {
  on_device({}, [] {
    const CUevent event = new_event();
    const CUstream stream = new_stream();
    EXPECT_RESULT(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
    OK(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    OK(cuEventQuery(event));  // it was not captured, and never recorded
    const CUgraph graph = end(stream);
    const std::vector<CUgraphNode> nodes = nodes_of(graph);
    EXPECT(nodes.size() == 2 && edges_of(graph) == 1);
    EXPECT(type_of(nodes[0]) == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    EXPECT(type_of(nodes[1]) == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    return 0;
  });
}

TEST_CASE("capture: a graph launch becomes a child graph, with what the executable graph was given") {
  on_device({}, [] {
    const CUgraph inner = new_graph();
    const CUgraphNode node = add_host(inner, {}, 1);
    const CUgraphExec exec = instantiate(inner);
    const CUDA_HOST_NODE_PARAMS other = noting(2);
    OK(cuGraphExecHostNodeSetParams(exec, node, &other));
    const CUstream stream = begin();
    OK(cuGraphLaunch(exec, stream));
    run(stream, 3);
    const CUgraph graph = end(stream);
    EXPECT(type_of(nodes_of(graph)[0]) == CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphLaunch(instantiate(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(g_order == std::vector<int>({2, 3}));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_RESULT(cuGraphUpload(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return 0;
  });
}

TEST_CASE("capture: an event that is recorded again is an ordinary event") {
  on_device({}, [] {
    const CUstream stream = begin();
    const CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    end(stream);
    EXPECT_RESULT(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_RESULT(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    OK(cuStreamWaitEvent(new_stream(), event, 0));
    return 0;
  });
}

TEST_CASE("capture: while it adds to a child graph, neither that nor what holds it goes") {
  on_device({}, [] {
    const CUgraph parent = new_graph();
    const CUgraph inner = new_graph();
    add_empty(inner, {});
    CUgraphNode node = nullptr;
    OK(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, inner));
    CUgraph child = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(node, &child));
    const CUstream stream = new_stream();
    OK(cuStreamBeginCaptureToGraph(stream, child, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = inner;
    EXPECT_RESULT(cuGraphDestroy(parent), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    run(stream, 1);
    run(stream, 2);
    CUgraph captured = nullptr;
    OK(cuStreamEndCapture(stream, &captured));
    EXPECT(captured == child && nodes_of(child).size() == 3);
    OK(cuGraphNodeSetParams(node, &params));
    OK(cuGraphDestroyNode(node));
    OK(cuGraphDestroy(parent));
    return 0;
  });
}

TEST_CASE("capture: an upload in a stream that captures leaves no executable graph") {
  on_device({}, [] {
    const CUgraph graph = new_graph();
    add_empty(graph, {});
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUgraphExec exec = nullptr;
    EXPECT_RESULT(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(exec == nullptr);
    return 0;
  });
}
