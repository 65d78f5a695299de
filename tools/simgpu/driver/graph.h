#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/graph_work.h"

namespace simgpu {

/// A node: its work, and its edges in the order in which they were added.
struct GraphNode {
  GraphNode();
  ~GraphNode();
  GraphNode(const GraphNode&) = delete;
  GraphNode& operator=(const GraphNode&) = delete;

  /// The node with this handle; null: there is none.
  static GraphNode* find(CUgraphNode handle);

  Graph* graph = nullptr;
  std::uint64_t id = 0;           ///< never used again in this process
  std::uint64_t cloned_from = 0;  ///< id of the node that this one was copied from; 0: of none
  bool enabled = true;            ///< only ever false in executable graphs
  NodeWork work;
  std::vector<GraphNode*> dependencies;
  std::vector<GraphNode*> dependents;
};

inline CUgraphNode handle_of(GraphNode* node) {
  return reinterpret_cast<CUgraphNode>(node);
}

/// Tells a child graph in the node's work that it lies there.
void adopt_child(GraphNode* node);

/// A directed graph of nodes, in the order of their creation ("Graph Management" of the CUDA driver API). It
/// may have cycles: they are found when it is instantiated. Not thread-safe; used under the device lock.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// The graph with this handle; null: there is none.
  static Graph* find(CUgraph handle);

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  [[nodiscard]] std::size_t edge_count() const;
  [[nodiscard]] bool contains(const GraphNode* node) const { return node != nullptr && node->graph == this; }

  /// Adds a node behind these ones, which must be different nodes of this graph.
  GraphNode* add(NodeWork&& work, const std::vector<GraphNode*>& dependencies);
  /// Removes a node with its edges.
  void remove(GraphNode* node);
  [[nodiscard]] static bool has_edge(const GraphNode* from, const GraphNode* to);
  /// Both ends must be of this graph, and the edge must not exist (add) or exist (remove).
  static void add_edge(GraphNode* from, GraphNode* to);
  static void remove_edge(GraphNode* from, GraphNode* to);

  /// Copies nodes, edges and child graphs; the copies know what they were copied from.
  [[nodiscard]] std::unique_ptr<Graph> clone() const;
  /// The node that was copied from the one with this id; null: none is left.
  [[nodiscard]] GraphNode* find_copy_of(std::uint64_t node_id) const;
  /// The nodes with every dependency before its dependents, equal ones in the order of creation. Shorter
  /// than nodes() if there is a cycle; `*in_cycle` is then a node that lies on or behind one.
  [[nodiscard]] std::vector<GraphNode*> in_order(GraphNode** in_cycle) const;
  /// True if there is a node that allocates or frees memory, also in child graphs.
  [[nodiscard]] bool has_memory_nodes() const;

  /// True while a capture adds nodes to it or to a graph inside it: then none of them may go.
  [[nodiscard]] bool held_by_capture() const;

  GraphNode* parent = nullptr;     ///< the node that owns this child graph
  bool capturing = false;          ///< a capture adds nodes: no destruction, removal or instantiation
  bool moved = false;              ///< belongs to a child node for good: no use of its own
  std::uint64_t instantiated = 0;  ///< executable graphs that exist of it

 private:
  std::uint64_t id_;
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

inline CUgraph handle_of(Graph* graph) {
  return reinterpret_cast<CUgraph>(graph);
}

}  // namespace simgpu
