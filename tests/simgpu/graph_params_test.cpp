// Parameters of graph nodes: copied when they are set, read as they were set, refused where a stream would
// refuse them. Documentation: CUDA Driver API, page "Graph Management".

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

CUDA_KERNEL_NODE_PARAMS one_thread(CUfunction function, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = arguments;
  return params;
}

template <class Value>
Value argument(const CUDA_KERNEL_NODE_PARAMS& params, std::size_t index) {
  Value value{};
  std::memcpy(&value, params.kernelParams[index], sizeof value);
  return value;
}

}  // namespace

TEST_CASE("graph: a kernel node copies its parameters, and a read-out belongs to the node") {
  const int wrong = count_over_seeds(20, [] {
    const CUfunction step = step_kernel();
    CUdeviceptr out = new_ints(1);
    const CUdeviceptr kept = out;
    int factor = 0;
    int value = 5;
    void* arguments[] = {&out, &factor, &value};
    CUDA_KERNEL_NODE_PARAMS params = one_thread(step, arguments);
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    out = 0;
    value = 6;
    arguments[0] = nullptr;
    CUDA_KERNEL_NODE_PARAMS read{};
    OK(cuGraphKernelNodeGetParams(node, &read));
    EXPECT(read.func == step && read.kern == nullptr && read.ctx == context() && read.extra == nullptr);
    EXPECT(read.gridDimX == 1 && read.blockDimZ == 1 && read.sharedMemBytes == 0);
    EXPECT(argument<CUdeviceptr>(read, 0) == kept && argument<int>(read, 2) == 5);
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(kept) == 5);
    // What was read can be set again, also after a change of one value.
    value = 8;
    read.kernelParams[2] = &value;
    OK(cuGraphKernelNodeSetParams(node, &read));
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(kept) == 8);
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph: packed kernel parameters are read back packed, and handles as they were set") {
  on_device({}, [] {
    CUlibrary library = nullptr;
    const CUfunction step = step_kernel();
    CUmodule module = nullptr;
    OK(cuFuncGetModule(&module, step));
    (void)library;
    struct {
      CUdeviceptr out;
      int factor = 0;
      int value = 3;
    } packed{new_ints(1)};
    std::size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS params = one_thread(step, nullptr);
    params.extra = extra;
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    CUDA_KERNEL_NODE_PARAMS read{};
    OK(cuGraphKernelNodeGetParams(node, &read));
    EXPECT(read.kernelParams == nullptr && read.extra != nullptr && read.extra != extra);
    OK(cuGraphKernelNodeSetParams(node, &read));
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(packed.out) == 3);
    CUkernelNodeAttrValue cooperative{};
    cooperative.cooperative = 1;
    EXPECT_RESULT(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: what no launch could be is no kernel node") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    CUdeviceptr out = new_ints(1);
    int factor = 0;
    int value = 0;
    void* arguments[] = {&out, &factor, &value};
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS params = one_thread(step, arguments);
    params.blockDimX = 1025;
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params = one_thread(nullptr, arguments);
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_HANDLE);
    params = one_thread(step, arguments);
    void* end = CU_LAUNCH_PARAM_END;
    params.extra = &end;
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params = one_thread(step, nullptr);
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params = one_thread(step, arguments);
    params.ctx = reinterpret_cast<CUcontext>(0x1234);
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_RESULT(cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphKernelNodeGetParams(add_empty(graph, {}), &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT(nodes_of(graph).size() == 1);
    return 0;
  });
}

TEST_CASE("graph: attributes of kernel nodes are kept, and copied by their own call") {
  on_device({}, [] {
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    const CUgraphNode a = add_step(graph, {}, step, out, 0, 1);
    const CUgraphNode b = add_step(graph, {a}, step, out, 0, 2);
    CUkernelNodeAttrValue value{};
    value.priority = -3;
    OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    EXPECT(value.priority == 0);
    OK(cuGraphKernelNodeCopyAttributes(b, a));
    CUDA_KERNEL_NODE_PARAMS params{};
    OK(cuGraphKernelNodeGetParams(b, &params));
    OK(cuGraphKernelNodeSetParams(b, &params));
    OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    EXPECT(value.priority == -3);
    EXPECT_RESULT(cuGraphKernelNodeSetAttribute(b, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value),
                  CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuGraphKernelNodeCopyAttributes(b, add_empty(graph, {})), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: memcpy nodes take what a 3D copy takes, and give it back") {
  on_device({}, [] {
    const CUdeviceptr from = new_ints(8);
    const CUdeviceptr to = new_ints(8);
    OK(cuMemsetD32(from, 7, 8));
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    CUDA_MEMCPY3D copy = linear_copy(to + 4, from, 8);
    OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context()));
    CUDA_MEMCPY3D read{};
    OK(cuGraphMemcpyNodeGetParams(node, &read));
    EXPECT(std::memcmp(&read, &copy, sizeof read) == 0);
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(to) == 0 && int_at(to + 4) == 7 && int_at(to + 8) == 7 && int_at(to + 12) == 0);
    copy.dstDevice = to;
    OK(cuGraphMemcpyNodeSetParams(node, &copy));
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(to) == 7);
    EXPECT_RESULT(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, nullptr), CUDA_ERROR_INVALID_CONTEXT);
    copy.WidthInBytes = 2 * kFrame;
    EXPECT_RESULT(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context()), CUDA_ERROR_INVALID_VALUE);
    copy = linear_copy(to, from, 0);
    EXPECT_RESULT(cuGraphMemcpyNodeSetParams(node, &copy), CUDA_ERROR_INVALID_VALUE);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    EXPECT_RESULT(cuGraphMemcpyNodeSetParams(node, &copy), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: a memcpy node reads pageable memory when it runs, not when it is made") {
  const int wrong = count_over_seeds(30, [] {
    const CUdeviceptr to = new_ints(1);
    int source = 1;
    CUDA_MEMCPY3D copy = linear_copy(to, 0, sizeof source);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = &source;
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context()));
    const CUgraphExec exec = instantiate(graph);
    source = 2;
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT(int_at(to) == 2);
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("graph: memset nodes, of one row and of several") {
  on_device({}, [] {
    const CUdeviceptr to = new_ints(16);
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = to;
    params.value = 0x01020304;
    params.elementSize = 4;
    params.width = 1;
    params.height = 2;
    params.pitch = 8;
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context()));
    CUDA_MEMSET_NODE_PARAMS read{};
    OK(cuGraphMemsetNodeGetParams(node, &read));
    EXPECT(std::memcmp(&read, &params, sizeof read) == 0);
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(int_at(to) == 0x01020304 && int_at(to + 4) == 0 && int_at(to + 8) == 0x01020304);
    params = CUDA_MEMSET_NODE_PARAMS{to, 0, 0xabcd, 2, 2, 1};
    OK(cuGraphMemsetNodeSetParams(node, &params));
    OK(cuGraphLaunch(instantiate(graph), nullptr));
    EXPECT(static_cast<unsigned>(int_at(to)) == 0xabcdabcdU);
    params.elementSize = 3;
    EXPECT_RESULT(cuGraphMemsetNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    params.elementSize = 2;
    params.width = 0;
    EXPECT_RESULT(cuGraphMemsetNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    params.width = 2;
    params.dst = to + 1;
    EXPECT_RESULT(cuGraphMemsetNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    params.dst = 0x1234;
    EXPECT_RESULT(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context()),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("graph: event nodes name their event, and it must be one") {
  on_device({}, [] {
    CUevent event = nullptr;
    CUevent other = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&other, 0));
    const CUgraph graph = new_graph();
    CUgraphNode record = nullptr;
    CUgraphNode wait = nullptr;
    OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
    OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    CUevent read = nullptr;
    OK(cuGraphEventRecordNodeSetEvent(record, other));
    OK(cuGraphEventRecordNodeGetEvent(record, &read));
    EXPECT(read == other);
    OK(cuGraphEventWaitNodeGetEvent(wait, &read));
    EXPECT(read == event);
    EXPECT_RESULT(cuGraphEventWaitNodeGetEvent(record, &read), CUDA_ERROR_INVALID_VALUE);
    const auto bogus = reinterpret_cast<CUevent>(0x1234);
    EXPECT_RESULT(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, bogus), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuGraphEventWaitNodeSetEvent(wait, bogus), CUDA_ERROR_INVALID_VALUE);
    const CUgraphExec exec = instantiate(graph);
    OK(cuEventDestroy(other));
    EXPECT_RESULT(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_HANDLE);
    return 0;
  });
}
