#include "tools/simgpu/driver/graph_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simgpu {
namespace {

constexpr CUgraphExecUpdateResult kSame = CU_GRAPH_EXEC_UPDATE_SUCCESS;

int priority_of(const KernelWork& work) {
  const auto it = work.attributes.find(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  return it == work.attributes.end() ? 0 : it->second.priority;
}

CUgraphExecUpdateResult check_kernel(const GraphExec& exec, const KernelWork& from, const KernelWork& to) {
  if (from.context != to.context) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  const bool by_priority = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
  if (from.cooperative() != to.cooperative() || (by_priority && priority_of(from) != priority_of(to))) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  }
  return kSame;
}

bool linear(const CUDA_MEMCPY3D& copy) {
  return copy.Height == 1 && copy.Depth == 1;
}

/// Copies of more than one dimension can stay as they are; nothing says that their addresses may change.
CUgraphExecUpdateResult check_memcpy(const MemcpyWork& from, const MemcpyWork& to) {
  if (std::memcmp(&from.copy, &to.copy, sizeof to.copy) == 0 && from.context == to.context) return kSame;
  const bool same_sides =
      from.copy.srcMemoryType == to.copy.srcMemoryType && from.copy.dstMemoryType == to.copy.dstMemoryType;
  return same_sides && linear(from.copy) && linear(to.copy) && from.context == to.context
             ? kSame
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/// Rows keep their shape. One row may get shorter; it may "fail if the resulting operation doesn't map onto
/// the work resources already allocated", so it may not get longer, nor its elements other ones.
CUgraphExecUpdateResult check_memset(const MemsetWork& from, const MemsetWork& to) {
  const CUDA_MEMSET_NODE_PARAMS_v2& a = from.fill;
  const CUDA_MEMSET_NODE_PARAMS_v2& b = to.fill;
  if (a.ctx != b.ctx || a.height != b.height || a.elementSize != b.elementSize) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  const bool fits = a.height == 1 ? b.width <= a.width : b.width == a.width && b.pitch == a.pitch;
  return fits ? kSame : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/// Child graphs are compared node by node, elsewhere.
CUgraphExecUpdateResult check_change(const GraphExec& exec, const NodeWork& from, const NodeWork& to) {
  if (from.index() != to.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (const auto* kernel = std::get_if<KernelWork>(&from)) {
    return check_kernel(exec, *kernel, std::get<KernelWork>(to));
  }
  if (const auto* copy = std::get_if<MemcpyWork>(&from)) {
    return check_memcpy(*copy, std::get<MemcpyWork>(to));
  }
  if (const auto* fill = std::get_if<MemsetWork>(&from)) return check_memset(*fill, std::get<MemsetWork>(to));
  if (const auto* alloc = std::get_if<AllocWork>(&from)) {
    const bool same = alloc->allocation == std::get<AllocWork>(to).allocation;
    return same ? kSame : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
  if (const auto* free = std::get_if<FreeWork>(&from)) {
    const bool same = free->address == std::get<FreeWork>(to).address;
    return same ? kSame : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
  return kSame;
}

std::vector<GraphNode*> exits_of(const Graph& graph) {
  std::vector<GraphNode*> exits;
  for (const auto& node : graph.nodes()) {
    if (node->dependents.empty()) exits.push_back(node.get());
  }
  return exits;
}

/// Pairs the nodes of two graphs, checks every pair, and then copies the parameters.
class Update {
 public:
  explicit Update(const GraphExec& exec) : exec_(exec) {}

  CUgraphExecUpdateResultInfo check(const Graph& old, const Graph& from) {
    std::unordered_map<GraphNode*, GraphNode*> paired;  // new to old
    CUgraphExecUpdateResultInfo info = pair(old, from, &paired);
    for (const auto& node : from.nodes()) {
      if (info.result != kSame) return info;
      GraphNode* target = paired.at(node.get());
      const CUgraphExecUpdateResult result = check_change(exec_, target->work, node->work);
      if (result != kSame) return {result, handle_of(node.get()), nullptr};
      if (const auto* child = std::get_if<ChildWork>(&node->work)) {
        info = check(*std::get<ChildWork>(target->work).graph, *child->graph);
      } else {
        changes_.emplace_back(target, node.get());
      }
    }
    return info;
  }

  void apply() const {
    for (const auto& [target, from] : changes_) copy_parameters(*from, target);
  }

 private:
  static CUgraphExecUpdateResultInfo different(GraphNode* node, GraphNode* dependency) {
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, handle_of(node), handle_of(dependency)};
  }

  static CUgraphExecUpdateResultInfo pair(const Graph& old, const Graph& from,
                                          std::unordered_map<GraphNode*, GraphNode*>* paired) {
    if (old.nodes().size() != from.nodes().size()) return different(nullptr, nullptr);
    const std::vector<GraphNode*> old_exits = exits_of(old);
    const std::vector<GraphNode*> exits = exits_of(from);
    if (exits.size() > old_exits.size()) return different(exits.back(), nullptr);
    std::vector<GraphNode*> open;
    std::unordered_map<const GraphNode*, const GraphNode*> back;  // old to new
    for (std::size_t i = 0; i < exits.size(); ++i) {
      paired->emplace(exits[i], old_exits[i]);
      back.emplace(old_exits[i], exits[i]);
      open.push_back(exits[i]);
    }
    while (!open.empty()) {
      GraphNode* node = open.back();
      open.pop_back();
      const GraphNode* target = paired->at(node);
      if (node->dependencies.size() != target->dependencies.size()) return different(node, nullptr);
      for (std::size_t i = 0; i < node->dependencies.size(); ++i) {
        GraphNode* dependency = node->dependencies[i];
        GraphNode* partner = target->dependencies[i];
        const auto known = paired->find(dependency);
        const auto known_back = back.find(partner);
        if (known == paired->end() && known_back == back.end()) {
          paired->emplace(dependency, partner);
          back.emplace(partner, dependency);
          open.push_back(dependency);
        } else if (known == paired->end() || known->second != partner) {
          return different(node, dependency);
        }
      }
    }
    // What no exit node leads back to lies on a cycle.
    if (paired->size() != from.nodes().size()) return different(nullptr, nullptr);
    return {kSame, nullptr, nullptr};
  }

  static void copy_parameters(const GraphNode& from, GraphNode* to) {
    std::visit(
        [&](const auto& work) {
          using Work = std::decay_t<decltype(work)>;
          if constexpr (!std::is_same_v<Work, ChildWork>) to->work = work;
        },
        from.work);
  }

  const GraphExec& exec_;
  std::vector<std::pair<GraphNode*, const GraphNode*>> changes_;
};

}  // namespace

CUgraphExecUpdateResultInfo update_exec(GraphExec* exec, const Graph& from) {
  Update update(*exec);
  const CUgraphExecUpdateResultInfo info = update.check(*exec->graph, from);
  if (info.result == kSame) update.apply();
  return info;
}

CUresult update_child(GraphExec* exec, const GraphNode& node, const Graph& from) {
  const GraphNode* target = exec->graph->find_copy_of(node.id);
  const auto* child = target == nullptr ? nullptr : std::get_if<ChildWork>(&target->work);
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Update update(*exec);
  if (update.check(*child->graph, from).result != kSame) return CUDA_ERROR_INVALID_VALUE;
  update.apply();
  return CUDA_SUCCESS;
}

CUresult update_node(GraphExec* exec, const GraphNode* node, NodeWork&& work) {
  GraphNode* target = node == nullptr ? nullptr : exec->graph->find_copy_of(node->id);
  if (target == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<KernelWork>(&work); kernel != nullptr) {
    const auto* old = std::get_if<KernelWork>(&target->work);
    if (old != nullptr) kernel->attributes = old->attributes;
  }
  // Updates of one node reject every copy of more than one dimension.
  const auto* copy = std::get_if<MemcpyWork>(&work);
  if (copy != nullptr && !linear(copy->copy)) return CUDA_ERROR_INVALID_VALUE;
  if (check_change(*exec, target->work, work) != kSame) return CUDA_ERROR_INVALID_VALUE;
  if (std::holds_alternative<ChildWork>(work)) {
    return update_child(exec, *node, *std::get<ChildWork>(work).graph);
  }
  target->work = std::move(work);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
