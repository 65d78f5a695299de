#include "tools/simgpu/driver/graph.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <unordered_map>
#include <unordered_set>

namespace simgpu {
namespace {

constexpr std::array kTypes = {CU_GRAPH_NODE_TYPE_KERNEL,       CU_GRAPH_NODE_TYPE_MEMCPY,
                               CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,
                               CU_GRAPH_NODE_TYPE_EMPTY,        CU_GRAPH_NODE_TYPE_GRAPH,
                               CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                               CU_GRAPH_NODE_TYPE_MEM_ALLOC,    CU_GRAPH_NODE_TYPE_MEM_FREE};
static_assert(kTypes.size() == std::variant_size_v<NodeWork>);

std::uint64_t new_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

/// What exists, so that any value can be asked for as a handle. Leaked: nothing is torn down at exit.
std::unordered_set<const GraphNode*>& living() {
  static auto* set = new std::unordered_set<const GraphNode*>;
  return *set;
}
std::unordered_set<const Graph*>& living_graphs() {
  static auto* set = new std::unordered_set<const Graph*>;
  return *set;
}

struct CopyWork {
  NodeWork operator()(const ChildWork& child) const {
    ChildWork copy;
    copy.graph = child.graph->clone();
    copy.ownership = child.ownership;
    return copy;
  }
  template <class Work>
  NodeWork operator()(const Work& work) const {
    return work;
  }
};

}  // namespace

void adopt_child(GraphNode* node) {
  if (auto* child = std::get_if<ChildWork>(&node->work)) child->graph->parent = node;
}

CUgraphNodeType type_of(const NodeWork& work) {
  return kTypes[work.index()];
}

GraphNode::GraphNode() : id(new_id()) {
  living().insert(this);
}
GraphNode::~GraphNode() {
  living().erase(this);
}

GraphNode* GraphNode::find(CUgraphNode handle) {
  auto* node = reinterpret_cast<GraphNode*>(handle);
  return living().contains(node) ? node : nullptr;
}

Graph::Graph() : id_(new_id()) {
  living_graphs().insert(this);
}
Graph::~Graph() {
  living_graphs().erase(this);
}

Graph* Graph::find(CUgraph handle) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  return living_graphs().contains(graph) ? graph : nullptr;
}

std::size_t Graph::edge_count() const {
  std::size_t count = 0;
  for (const auto& node : nodes_) count += node->dependencies.size();
  return count;
}

GraphNode* Graph::add(NodeWork&& work, const std::vector<GraphNode*>& dependencies) {
  auto made = std::make_unique<GraphNode>();
  GraphNode* node = made.get();
  node->graph = this;
  node->work = std::move(work);
  adopt_child(node);
  nodes_.push_back(std::move(made));
  for (GraphNode* dependency : dependencies) add_edge(dependency, node);
  return node;
}

void Graph::remove(GraphNode* node) {
  while (!node->dependencies.empty()) remove_edge(node->dependencies.back(), node);
  while (!node->dependents.empty()) remove_edge(node, node->dependents.back());
  std::erase_if(nodes_, [&](const auto& owned) { return owned.get() == node; });
}

bool Graph::has_edge(const GraphNode* from, const GraphNode* to) {
  return std::find(to->dependencies.begin(), to->dependencies.end(), from) != to->dependencies.end();
}

void Graph::add_edge(GraphNode* from, GraphNode* to) {
  to->dependencies.push_back(from);
  from->dependents.push_back(to);
}

void Graph::remove_edge(GraphNode* from, GraphNode* to) {
  std::erase(to->dependencies, from);
  std::erase(from->dependents, to);
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : nodes_) {
    GraphNode* made = copy->add(std::visit(CopyWork{}, node->work), {});
    made->cloned_from = node->id;
    made->enabled = node->enabled;
    copies.emplace(node.get(), made);
  }
  // Both lists keep their order: updates of executable graphs pair nodes by it.
  for (const auto& node : nodes_) {
    GraphNode* made = copies.at(node.get());
    for (const GraphNode* dependency : node->dependencies)
      made->dependencies.push_back(copies.at(dependency));
    for (const GraphNode* dependent : node->dependents) made->dependents.push_back(copies.at(dependent));
  }
  return copy;
}

GraphNode* Graph::find_copy_of(std::uint64_t node_id) const {
  const auto it = std::find_if(nodes_.begin(), nodes_.end(),
                               [&](const auto& node) { return node->cloned_from == node_id; });
  return it == nodes_.end() ? nullptr : it->get();
}

std::vector<GraphNode*> Graph::in_order(GraphNode** in_cycle) const {
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::deque<GraphNode*> ready;
  for (const auto& node : nodes_) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.push_back(node.get());
  }
  std::vector<GraphNode*> order;
  while (!ready.empty()) {
    GraphNode* node = ready.front();
    ready.pop_front();
    order.push_back(node);
    for (GraphNode* dependent : node->dependents) {
      if (--missing[dependent] == 0) ready.push_back(dependent);
    }
  }
  if (order.size() < nodes_.size() && in_cycle != nullptr) {
    for (const auto& node : nodes_) {
      if (missing[node.get()] != 0) *in_cycle = node.get();
    }
  }
  return order;
}

bool Graph::held_by_capture() const {
  return capturing || std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
           const auto* child = std::get_if<ChildWork>(&node->work);
           return child != nullptr && child->graph->held_by_capture();
         });
}

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    if (const auto* child = std::get_if<ChildWork>(&node->work)) return child->graph->has_memory_nodes();
    return std::holds_alternative<AllocWork>(node->work) || std::holds_alternative<FreeWork>(node->work);
  });
}

}  // namespace simgpu
