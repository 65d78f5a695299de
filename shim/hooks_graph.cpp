// Graphs. Work that goes into a graph uses no memory yet. When a graph is instantiated, or an instance is
// given other work, the blocks that it names are brought to the device and stay there as long as the instance
// lives: its launches use them unseen.

#include <tuple>
#include <type_traits>
#include <utility>

#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/gate.h"
#include "shim/graph_memory.h"
#include "shim/graph_scan.h"
#include "shim/held_blocks.h"
#include "shim/managed.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {

namespace {

/// Such an instance is launched by kernels, unseen.
template <class Argument>
bool may_launch_itself(Argument argument) noexcept {
  constexpr auto kFlag = static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
  if constexpr (std::is_same_v<Argument, unsigned long long>) return (argument & kFlag) != 0;
  if constexpr (std::is_same_v<Argument, CUDA_GRAPH_INSTANTIATE_PARAMS*>)
    return argument != nullptr && (argument->flags & kFlag) != 0;
  return false;
}

constexpr auto kInstantiate = [](const auto& call, CUgraphExec* out, CUgraph graph, auto... rest) noexcept {
  HeldBlocks held;
  const auto scan = [graph](TouchSet& set) { return scan_graph(graph, set); };
  if (const CUresult kept = held.hold(call.kName, scan); kept != CUDA_SUCCESS) return kept;
  const auto make = [&] { return call(out, graph, rest...); };
  const CUresult result = make_instance(call.kName, graph, out, make);
  if (result != CUDA_SUCCESS) return result;
  if ((may_launch_itself(rest) || ...)) held.never_let_go();
  add_held(*out, std::move(held));
  return result;
};

// Launches of it that are under way go on: its blocks may leave once those have passed.
constexpr auto kExecDestroy = [](const auto& call, CUgraphExec instance) noexcept {
  HeldBlocks held = take_held(instance);
  const auto destroy = [&] { return call(instance); };
  const CUresult result = end_instance(instance, destroy);
  if (result != CUDA_SUCCESS) add_held(instance, std::move(held));
  return result;
};

constexpr auto kUpload = [](const auto& call, CUgraphExec instance, CUstream stream) noexcept {
  const auto upload = [&] { return call(instance, stream); };
  return run_instance(call.kName, instance, upload);
};

constexpr auto kTrim = [](const auto& call, CUdevice device) noexcept {
  const CUresult result = call(device);
  if (result == CUDA_SUCCESS) count_graph_memory(device);
  return result;
};

// One that fails may have changed some nodes.
constexpr auto kUpdate = [](const auto& call, CUgraphExec exec, CUgraph graph, auto... rest) noexcept {
  HeldBlocks held;
  const auto scan = [graph](TouchSet& set) { return scan_graph(graph, set); };
  if (const CUresult kept = held.hold(call.kName, scan); kept != CUDA_SUCCESS) return kept;
  const CUresult result = with_room([&] { return call(exec, graph, rest...); });
  if (result == CUDA_SUCCESS) {
    const HeldBlocks before = take_held(exec);
    add_held(exec, std::move(held));
  } else {
    join_held(exec, std::move(held));
  }
  return result;
};

constexpr auto kSetChild = [](const auto& call, CUgraphExec exec, CUgraphNode node, CUgraph graph) noexcept {
  HeldBlocks held;
  const auto scan = [graph](TouchSet& set) { return scan_graph(graph, set); };
  if (const CUresult kept = held.hold(call.kName, scan); kept != CUDA_SUCCESS) return kept;
  const CUresult result = with_room([&] { return call(exec, node, graph); });
  join_held(exec, std::move(held));
  return result;
};

// What a node is given, wherever it stands among the arguments. The driver looks at the memory that a copy or
// memset names when the node is made, so it must be there by then.
template <class Argument>
bool scan_argument(const Argument& argument, TouchSet& set) noexcept {
  if constexpr (std::is_pointer_v<Argument>) {
    using Params = std::remove_const_t<std::remove_pointer_t<Argument>>;
    if constexpr (requires(const Params& params) { scan_node(params, set); }) {
      return argument == nullptr || scan_node(*argument, set);
    }
  }
  return true;
}

// An instance uses it from then on; one that was refused may, or what the node had before. A graph need not
// find it later: what it is made of is asked when it is instantiated.
constexpr auto kGiveNode = [](const auto& call, auto first, auto... args) noexcept {
  HeldBlocks held;
  const auto scan = [&](TouchSet& set) { return (scan_argument(args, set) && ...); };
  if (const CUresult kept = held.hold(call.kName, scan); kept != CUDA_SUCCESS) return kept;
  const CUresult result = with_room([&] { return call(first, args...); });
  if constexpr (std::is_same_v<decltype(first), CUgraphExec>) {
    if (result == CUDA_SUCCESS) {
      exchange_held(first, std::get<0>(std::tuple(args...)), std::move(held));
    } else {
      join_held(first, std::move(held));
    }
  }
  return result;
};

constexpr auto kAddAllocation = [](const auto& call, CUgraphNode* out, CUgraph graph,
                                   const CUgraphNode* after, std::size_t count,
                                   CUDA_MEM_ALLOC_NODE_PARAMS* params) noexcept {
  const auto add = [&] { return call(out, graph, after, count, params); };
  if (params == nullptr) return add();
  return make_allocation_node(call.kName, params->poolProps.location.id, Bytes(params->bytesize), add);
};

// What a node is given comes last.
constexpr auto kAddNode = [](const auto& call, auto... args) noexcept {
  const auto add = [&] { return kGiveNode(call, args...); };
  const CUgraphNodeParams* const params = std::get<sizeof...(args) - 1>(std::tuple(args...));
  if (params == nullptr || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return add();
  const CUDA_MEM_ALLOC_NODE_PARAMS_v2& wanted = params->alloc;
  return make_allocation_node(call.kName, wanted.poolProps.location.id, Bytes(wanted.bytesize), add);
};

// What it uses is there; but a free has to wait for the stream's context, and what the instance holds for its
// launches.
constexpr auto kGraphLaunch = [](const auto& call, CUgraphExec exec, CUstream stream) noexcept {
  for_each_managed([](const ManagedDevice& device) { device.runtime->obey(); });
  if (const CUresult held = renew_held(exec, call.kName); held != CUDA_SUCCESS) return held;
  note_unseen_use(stream);
  const auto launch = [&] { return call(exec, stream); };
  const CUresult result = run_instance(call.kName, exec, launch);
  WorkUses uses;
  note_work(stream, call.kPerThread, uses);
  note_launch(exec, uses);
  if (is_all_work_awaited()) await_work(uses, call.kName);
  if (recording() && result == CUDA_SUCCESS) [[unlikely]]
    record_graph(recorded_stream(stream, call.kPerThread));
  return result;
};

constexpr auto kBeginCapture = [](const auto& call, CUstream stream, auto... rest) noexcept {
  capture_begins();
  const CUresult result = call(stream, rest...);
  capture_has_begun(result == CUDA_SUCCESS, stream, call.kPerThread);
  return result;
};

// A capture that has become invalid ends with an error, but it ends.
constexpr auto kEndCapture = [](const auto& call, CUstream stream, CUgraph* out) noexcept {
  const bool was_capturing = is_capturing(stream, call.kPerThread);
  const CUresult result = call(stream, out);
  if (was_capturing && !ask_if_capturing(stream, call.kPerThread)) capture_ended(stream, call.kPerThread);
  return result;
};

}  // namespace

TP_HANDLE(cuGraphInstantiate, kInstantiate)
TP_HANDLE(cuGraphInstantiate_v2, kInstantiate)
TP_HANDLE(cuGraphInstantiateWithFlags, kInstantiate)
TP_HANDLE_PTSZ(cuGraphInstantiateWithParams, kInstantiate)
TP_HANDLE(cuGraphExecUpdate, kUpdate)
TP_HANDLE(cuGraphExecUpdate_v2, kUpdate)
TP_HANDLE(cuGraphExecChildGraphNodeSetParams, kSetChild)
TP_HANDLE(cuGraphExecKernelNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphExecKernelNodeSetParams_v2, kGiveNode)
TP_HANDLE(cuGraphExecMemcpyNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphExecMemsetNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphExecBatchMemOpNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphExecNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphAddMemcpyNode, kGiveNode)
TP_HANDLE(cuGraphAddMemsetNode, kGiveNode)
TP_HANDLE(cuGraphAddBatchMemOpNode, kGiveNode)
TP_HANDLE(cuGraphAddMemAllocNode, kAddAllocation)
TP_HANDLE(cuGraphAddNode, kAddNode)
TP_HANDLE(cuGraphAddNode_v2, kAddNode)
TP_HANDLE(cuGraphMemcpyNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphMemsetNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphBatchMemOpNodeSetParams, kGiveNode)
TP_HANDLE(cuGraphNodeSetParams, kGiveNode)
TP_HANDLE_PTSZ(cuGraphLaunch, kGraphLaunch)
TP_HANDLE_PTSZ(cuGraphUpload, kUpload)
TP_HANDLE(cuGraphExecDestroy, kExecDestroy)
TP_HANDLE(cuDeviceGraphMemTrim, kTrim)
TP_HANDLE_PTSZ(cuStreamBeginCapture, kBeginCapture)
TP_HANDLE_PTSZ(cuStreamBeginCapture_v2, kBeginCapture)
TP_HANDLE_PTSZ(cuStreamBeginCaptureToGraph, kBeginCapture)
TP_HANDLE_PTSZ(cuStreamEndCapture, kEndCapture)

}  // namespace tidepool::shim
