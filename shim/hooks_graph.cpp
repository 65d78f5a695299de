// Graphs. Work that goes into a graph uses no memory yet. When a graph is instantiated, or an instance is
// given other work, the blocks that it names are brought to the device and stay there: launches of the graph
// use them unseen.

#include <tuple>
#include <type_traits>

#include "allocator/support/message.h"
#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/gate.h"
#include "shim/graph_memory.h"
#include "shim/graph_scan.h"
#include "shim/managed.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {

namespace {

/// Keeps what `scan(set)` finds; where it cannot tell, everything, for good.
template <class Scan>
CUresult keep_found(const char* what, Scan&& scan) noexcept {
  runtime::Status status;
  for_each_managed([&](const ManagedDevice& device) {
    if (!status.ok() || device.runtime->frozen()) return;
    // A driver whose device is lost tells nothing of a graph.
    status = device.runtime->device_status();
    if (!status.ok()) return;
    TouchSet set(device.runtime->arena());
    const bool is_known = scan(set) && set.complete();
    status = is_known ? device.runtime->keep(set.ids(), what) : device.runtime->freeze(what);
    if (!is_known && status.ok()) report<Msg::TP2101>(what);
  });
  return static_cast<CUresult>(status.code());
}

constexpr auto kInstantiate = [](const auto& call, CUgraphExec* out, CUgraph graph, auto... rest) noexcept {
  const CUresult kept = keep_found(call.kName, [&](TouchSet& set) { return scan_graph(graph, set); });
  if (kept != CUDA_SUCCESS) return kept;
  const auto make = [&] { return call(out, graph, rest...); };
  return make_instance(call.kName, graph, out, make);
};

constexpr auto kExecDestroy = [](const auto& call, CUgraphExec instance) noexcept {
  const auto destroy = [&] { return call(instance); };
  return end_instance(instance, destroy);
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

constexpr auto kUpdate = [](const auto& call, CUgraphExec exec, CUgraph graph, auto... rest) noexcept {
  const CUresult kept = keep_found(call.kName, [&](TouchSet& set) { return scan_graph(graph, set); });
  return kept == CUDA_SUCCESS ? call(exec, graph, rest...) : kept;
};

constexpr auto kSetChild = [](const auto& call, CUgraphExec exec, CUgraphNode node, CUgraph graph) noexcept {
  const CUresult kept = keep_found(call.kName, [&](TouchSet& set) { return scan_graph(graph, set); });
  return kept == CUDA_SUCCESS ? call(exec, node, graph) : kept;
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

constexpr auto kGiveNode = [](const auto& call, auto... args) noexcept {
  const CUresult kept =
      keep_found(call.kName, [&](TouchSet& set) { return (scan_argument(args, set) && ...); });
  return kept == CUDA_SUCCESS ? call(args...) : kept;
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

// What it uses is kept; but a free has to wait for the stream's context.
constexpr auto kGraphLaunch = [](const auto& call, CUgraphExec exec, CUstream stream) noexcept {
  for_each_managed([](const ManagedDevice& device) { device.runtime->obey(); });
  note_unseen_use(stream);
  const auto launch = [&] { return call(exec, stream); };
  const CUresult result = run_instance(call.kName, exec, launch);
  note_work(stream, call.kPerThread);
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
