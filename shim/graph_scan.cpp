#include "shim/graph_scan.h"

#include <cstdint>
#include <vector>

#include "shim/arg_scan.h"
#include "shim/ask.h"
#include "shim/copy_extent.h"
#include "shim/payload.h"
#include "shim/real_driver.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

bool scan_launch(CUfunction function, CUkernel kernel, void** params, void** extra, TouchSet& set) noexcept {
  // cuda.h: exactly one of the two is set.
  if (function == nullptr) function = reinterpret_cast<CUfunction>(kernel);
  return function != nullptr && scan_arguments(active_driver(), function, params, extra, set);
}

void scan_batch(const CUstreamBatchMemOpParams* operations, unsigned count, TouchSet& set) noexcept {
  note_waits(operations, count);
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    set.add(address_of(operations[i]));
    set.add(value_of(operations[i]));
  }
}

// What a node is given, by the driver's question for its kind.
template <class Params, class Ask>
bool scan_asked(Ask* ask, CUgraphNode node, TouchSet& set) noexcept {
  if (ask == nullptr) return false;
  Params params{};
  return ask_again([&] { return ask(node, &params); }) == CUDA_SUCCESS && scan_node(params, set);
}

bool scan_child(CUgraphNode node, TouchSet& set) noexcept {
  CUgraph child = nullptr;
  const auto ask = active_driver().cuGraphChildGraphNodeGetGraph;
  if (ask == nullptr) return false;
  return ask_again([&] { return ask(node, &child); }) == CUDA_SUCCESS && scan_graph(child, set);
}

bool scan_any(CUgraphNode node, TouchSet& set) noexcept {
  const RealDriver& driver = active_driver();
  CUgraphNodeType kind{};
  if (ask_again([&] { return driver.cuGraphNodeGetType(node, &kind); }) != CUDA_SUCCESS) return false;
  switch (kind) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return scan_asked<CUDA_KERNEL_NODE_PARAMS>(driver.cuGraphKernelNodeGetParams_v2, node, set);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return scan_asked<CUDA_MEMCPY3D>(driver.cuGraphMemcpyNodeGetParams, node, set);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return scan_asked<CUDA_MEMSET_NODE_PARAMS>(driver.cuGraphMemsetNodeGetParams, node, set);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return scan_asked<CUDA_BATCH_MEM_OP_NODE_PARAMS>(driver.cuGraphBatchMemOpNodeGetParams, node, set);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return scan_child(node, set);
    // These name no device memory, or memory that is the graph's own.
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool scan_graph(CUgraph graph, TouchSet& set) noexcept {
  const RealDriver& driver = active_driver();
  if (driver.cuGraphGetNodes == nullptr || driver.cuGraphNodeGetType == nullptr) return false;
  std::size_t count = 0;
  const auto ask = [&](CUgraphNode* nodes) {
    return ask_again([&] { return driver.cuGraphGetNodes(graph, nodes, &count); }) == CUDA_SUCCESS;
  };
  if (!ask(nullptr)) return false;
  std::vector<CUgraphNode> nodes(count);
  if (count != 0 && !ask(nodes.data())) return false;
  for (CUgraphNode node : nodes) {
    if (!scan_any(node, set)) return false;
  }
  return true;
}

bool scan_node(const CUDA_KERNEL_NODE_PARAMS& kernel, TouchSet& set) noexcept {
  return scan_launch(kernel.func, kernel.kern, kernel.kernelParams, kernel.extra, set);
}

bool scan_node(const CUDA_KERNEL_NODE_PARAMS_v1& kernel, TouchSet& set) noexcept {
  return scan_launch(kernel.func, nullptr, kernel.kernelParams, kernel.extra, set);
}

bool scan_node(const CUDA_MEMCPY3D& copy, TouchSet& set) noexcept {
  add_reached(set, copy);
  for_each_row(payload_of(copy), [&](std::uint64_t, const std::byte* words, std::size_t many) {
    for (std::size_t i = 0; i < many; ++i) set.add(word_at(words, i));
  });
  return true;
}

bool scan_node(const CUDA_MEMSET_NODE_PARAMS& memset, TouchSet& set) noexcept {
  set.add(memset.dst);
  return true;
}

std::uint64_t address_of(const CUstreamBatchMemOpParams& operation) noexcept {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return operation.waitValue.address;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return operation.writeValue.address;
    default:
      return 0;
  }
}

void note_waits(const CUstreamBatchMemOpParams* operations, unsigned count) noexcept {
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpType kind = operations[i].operation;
    if (kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64)
      note_awaited_value();
  }
}

std::uint64_t value_of(const CUstreamBatchMemOpParams& operation) noexcept {
  const bool is_word = operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  return is_word ? operation.writeValue.value64 : 0;
}

bool scan_node(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch, TouchSet& set) noexcept {
  scan_batch(batch.paramArray, batch.count, set);
  return true;
}

bool scan_node(const CUgraphNodeParams& any, TouchSet& set) noexcept {
  switch (any.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return scan_launch(any.kernel.func, any.kernel.kern, any.kernel.kernelParams, any.kernel.extra, set);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return scan_node(any.memcpy.copyParams, set);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      set.add(any.memset.dst);
      return true;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      scan_batch(any.memOp.paramArray, any.memOp.count, set);
      return true;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return scan_graph(any.graph.graph, set);
    default:  // names none; or, like a condition, only once the graph is instantiated
      return true;
  }
}

}  // namespace tidepool::shim
