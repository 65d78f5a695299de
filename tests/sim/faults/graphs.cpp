// Graphs: each kind of node that names memory, each way to make one ready and to change it, each way to
// capture one.

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

constexpr std::size_t kBytes = kWords * sizeof(unsigned);

CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS memset_of(CUdeviceptr to, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = to;
  set.elementSize = 4;
  set.value = value;
  set.width = 1;
  set.height = 1;
  return set;
}

/// A launch of mark, whose parameters live here.
struct Mark {
  Mark(CUfunction function, CUdeviceptr to, unsigned start) : at(to), value(start) {
    node.func = function;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = kWords;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  CUdeviceptr at;
  unsigned value;
  void* params[2] = {&at, &value};
  CUDA_KERNEL_NODE_PARAMS node{};
};

CUgraphNodeParams memset_node(CUdeviceptr to, unsigned value, CUcontext context) {
  const CUDA_MEMSET_NODE_PARAMS set = memset_of(to, value);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset.dst = set.dst;
  params.memset.elementSize = set.elementSize;
  params.memset.value = set.value;
  params.memset.width = set.width;
  params.memset.height = set.height;
  params.memset.ctx = context;
  return params;
}

CUDA_KERNEL_NODE_PARAMS_v1 old_node(CUfunction function, void** params) {
  CUDA_KERNEL_NODE_PARAMS_v1 old{};
  old.func = function;
  old.gridDimX = old.gridDimY = old.gridDimZ = old.blockDimY = old.blockDimZ = 1;
  old.blockDimX = kWords;
  old.kernelParams = params;
  return old;
}

/// In the ways of each version, in a graph that is not run.
void make_old_node(const CUDA_KERNEL_NODE_PARAMS_v1& old, const CUDA_KERNEL_NODE_PARAMS& params) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CALL(cuGraphCreate)(&graph, 0u);
  CALL(cuGraphAddKernelNode)(&node, graph, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}, &old);
  CALL(cuGraphKernelNodeSetParams)(node, &old);
  CALL(cuGraphKernelNodeSetParams_v2)(node, &params);
  CALL(cuGraphDestroy)(graph);
}

unsigned word(const Device& device, CUdeviceptr at) {
  device.wait();
  unsigned read = 0;
  CALL(cuMemcpyDtoH_v2)(static_cast<void*>(&read), at, sizeof read);
  return read;
}

void run(const Device& device, CUgraphExec exec) {
  CALL(cuGraphLaunch)(exec, device.stream);
}

/// kernel at `a`, copied to `b`, whose first word is set, and whose 100th and 101st are set by general nodes.
struct Chain {
  Chain(const Device& device, CUdeviceptr a, CUdeviceptr b, unsigned value) : mark(device.mark, a, value) {
    CALL(cuGraphCreate)(&graph, 0u);
    CALL(cuGraphAddKernelNode_v2)
    (&kernel, graph, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}, &mark.node);
    const CUDA_MEMCPY3D move = copy_of(b, a);
    CALL(cuGraphAddMemcpyNode)(&copy, graph, &kernel, std::size_t{1}, &move, device.context);
    const CUDA_MEMSET_NODE_PARAMS fill = memset_of(b, value + 5);
    CALL(cuGraphAddMemsetNode)(&set, graph, &copy, std::size_t{1}, &fill, device.context);
    CUgraphNodeParams params = memset_node(b + 400, value + 6, device.context);
    CALL(cuGraphAddNode)(&general, graph, &set, std::size_t{1}, &params);
    params = memset_node(b + 404, value + 7, device.context);
    CUgraphNode last = nullptr;
    CALL(cuGraphAddNode_v2)
    (&last, graph, &general, static_cast<const CUgraphEdgeData*>(nullptr), std::size_t{1}, &params);
  }
  ~Chain() { CALL(cuGraphDestroy)(graph); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Mark mark;
  CUgraph graph = nullptr;
  CUgraphNode kernel = nullptr, copy = nullptr, set = nullptr, general = nullptr;
};

void expect_chain(const Device& device, CUdeviceptr a, CUdeviceptr b, unsigned value, unsigned set) {
  device.expect(a, value);
  EXPECT(word(device, b) == set && word(device, b + 4) == value + 1);
}

/// Each way to instantiate.
void ways(const Device& device, CUdeviceptr a, CUdeviceptr b, unsigned value) {
  const Chain chain(device, a, b, value);
  CUgraphNode failed = nullptr;
  char* const log = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUgraphExec execs[4] = {};
  CALL(cuGraphInstantiate)(&execs[0], chain.graph, &failed, log, std::size_t{0});
  CALL(cuGraphInstantiate_v2)(&execs[1], chain.graph, &failed, log, std::size_t{0});
  CALL(cuGraphInstantiateWithFlags)(&execs[2], chain.graph, 0ull);
  CALL(cuGraphInstantiateWithParams)(&execs[3], chain.graph, &params);
  for (const CUgraphExec exec : execs) {
    CALL(cuMemsetD32Async)(b, 0u, std::size_t{128}, device.stream);
    CALL(cuGraphUpload)(exec, device.stream);
    run(device, exec);
    expect_chain(device, a, b, value, value + 5);
    EXPECT(word(device, b + 400) == value + 6 && word(device, b + 404) == value + 7);
    CALL(cuGraphExecDestroy)(exec);
  }
}

/// Each way to change what a node names, in the graph and in what was made of it.
void changes(const Device& device, CUdeviceptr a, CUdeviceptr b, unsigned value) {
  Chain chain(device, a, b, value);
  CUDA_KERNEL_NODE_PARAMS_v1 old = old_node(device.mark, chain.mark.params);
  make_old_node(old, chain.mark.node);
  const CUDA_MEMCPY3D move = copy_of(b, a);
  CUDA_MEMSET_NODE_PARAMS fill = memset_of(b, value + 8);
  CUgraphNodeParams params = memset_node(b + 400, value + 9, device.context);
  CALL(cuGraphMemcpyNodeSetParams)(chain.copy, &move);
  CALL(cuGraphMemsetNodeSetParams)(chain.set, &fill);
  CALL(cuGraphNodeSetParams)(chain.general, &params);
  CUgraphExec exec = nullptr;
  CALL(cuGraphInstantiateWithFlags)(&exec, chain.graph, 0ull);
  run(device, exec);
  expect_chain(device, a, b, value, value + 8);
  EXPECT(word(device, b + 400) == value + 9);

  fill.value = value + 10;
  params = memset_node(b + 400, value + 11, device.context);
  chain.mark.value = value + 1;
  CALL(cuGraphExecKernelNodeSetParams)(exec, chain.kernel, &old);
  CALL(cuGraphExecMemcpyNodeSetParams)(exec, chain.copy, &move, device.context);
  CALL(cuGraphExecMemsetNodeSetParams)(exec, chain.set, &fill, device.context);
  CALL(cuGraphExecNodeSetParams)(exec, chain.general, &params);
  run(device, exec);
  expect_chain(device, a, b, value + 1, value + 10);
  EXPECT(word(device, b + 400) == value + 11);
  chain.mark.value = value + 2;
  CALL(cuGraphExecKernelNodeSetParams_v2)(exec, chain.kernel, &chain.mark.node);
  run(device, exec);
  expect_chain(device, a, b, value + 2, value + 10);

  const Chain other(device, a, b, value + 20);
  CUgraphNode failed = nullptr;
  CUgraphExecUpdateResult result{};
  CUgraphExecUpdateResultInfo info{};
  CALL(cuGraphExecUpdate)(exec, other.graph, &failed, &result);
  run(device, exec);
  expect_chain(device, a, b, value + 20, value + 25);
  const Chain third(device, a, b, value + 30);
  CALL(cuGraphExecUpdate_v2)(exec, third.graph, &info);
  run(device, exec);
  expect_chain(device, a, b, value + 30, value + 35);
  CALL(cuGraphExecDestroy)(exec);
}

/// A graph in a graph, with memory of its own.
void nested(const Device& device, CUdeviceptr a, CUdeviceptr b, unsigned value) {
  const Chain inner(device, a, b, value);
  CUgraph outer = nullptr;
  CUgraphNode child = nullptr, allocated = nullptr, filled = nullptr, freed = nullptr;
  CALL(cuGraphCreate)(&outer, 0u);
  const auto* const none = static_cast<const CUgraphNode*>(nullptr);
  CALL(cuGraphAddChildGraphNode)(&child, outer, none, std::size_t{0}, inner.graph);
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = 2 * kMiB;
  CALL(cuGraphAddMemAllocNode)(&allocated, outer, none, std::size_t{0}, &params);
  const CUDA_MEMSET_NODE_PARAMS fill = memset_of(params.dptr, value);
  CALL(cuGraphAddMemsetNode)(&filled, outer, &allocated, std::size_t{1}, &fill, device.context);
  CALL(cuGraphAddMemFreeNode)(&freed, outer, &filled, std::size_t{1}, params.dptr);
  CUgraphExec exec = nullptr;
  CALL(cuGraphInstantiateWithFlags)(&exec, outer, 0ull);
  run(device, exec);
  expect_chain(device, a, b, value, value + 5);
  const Chain other(device, a, b, value + 40);
  CALL(cuGraphExecChildGraphNodeSetParams)(exec, child, other.graph);
  run(device, exec);
  expect_chain(device, a, b, value + 40, value + 45);
  CALL(cuGraphExecDestroy)(exec);
  CALL(cuGraphDestroy)(outer);
  CALL(cuDeviceGraphMemTrim)(0);
}

}  // namespace

void graphs(const Device& device, unsigned round) {
  const Memory a(2 * kMiB);
  const Memory b(2 * kMiB);
  ways(device, a.at, b.at, 100 * round);
  changes(device, a.at, b.at, 100 * round + 1);
  nested(device, a.at, b.at, 100 * round + 2);
}

void captures(const Device& device, unsigned round) {
  const Memory memory(2 * kMiB);
  for (const unsigned way : {0u, 1u, 2u}) {
    const unsigned value = 10 * round + way;
    CUgraph graph = nullptr, target = nullptr;
    if (way == 0) CALL(cuStreamBeginCapture)(device.stream);
    if (way == 1) CALL(cuStreamBeginCapture_v2)(device.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (way == 2) {
      CALL(cuGraphCreate)(&target, 0u);
      CALL(cuStreamBeginCaptureToGraph)
      (device.stream, target, static_cast<const CUgraphNode*>(nullptr),
       static_cast<const CUgraphEdgeData*>(nullptr), std::size_t{0}, CU_STREAM_CAPTURE_MODE_RELAXED);
    }
    device.write(memory.at, value);
    CALL(cuMemsetD32Async)(memory.at + kBytes, value, std::size_t{1}, device.stream);
    CALL(cuStreamEndCapture)(device.stream, &graph);
    CUgraphExec exec = nullptr;
    CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0ull);
    run(device, exec);
    device.expect(memory.at, value);
    EXPECT(word(device, memory.at + kBytes) == value);
    CALL(cuGraphExecDestroy)(exec);
    CALL(cuGraphDestroy)(graph);
  }
}

}  // namespace tidepool::faults
