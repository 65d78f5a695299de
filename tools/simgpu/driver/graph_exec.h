#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph.h"

namespace simgpu {

/// An executable graph: a copy of the graph as it was when it was instantiated. Launches that are queued do
/// not refer to it, so it can change or go at any time.
struct GraphExec {
  std::unique_ptr<Graph> graph;
  CUgraph source = nullptr;  ///< the graph that it was made of, with its id: the handle may be another's now
  std::uint64_t source_id = 0;
  unsigned long long flags = 0;
  /// Hidden streams that launches run on, one for each branch; launches are ordered, so they share them.
  std::vector<std::shared_ptr<Stream>> lanes;
  Wait last{};  ///< the end of the latest launch or upload; no stream: there was none
};

inline CUgraphExec handle_of(GraphExec* exec) {
  return reinterpret_cast<CUgraphExec>(exec);
}

/// The graphs and executable graphs that the program owns. Protected by the driver's lock.
struct Graphs {
  std::unordered_map<CUgraph, std::unique_ptr<Graph>> owned;
  std::unordered_map<CUgraphExec, std::shared_ptr<GraphExec>> execs;

  /// Null if there is no such executable graph.
  [[nodiscard]] std::shared_ptr<GraphExec> find(CUgraphExec handle) const {
    const auto it = execs.find(handle);
    return it == execs.end() ? nullptr : it->second;
  }
  CUgraph own(std::unique_ptr<Graph> graph) {
    const CUgraph handle = handle_of(graph.get());
    owned.emplace(handle, std::move(graph));
    return handle;
  }
};
Graphs& graphs();

/// Makes an executable graph. On failure `p` says why, as "cuGraphInstantiateWithParams" documents.
CUresult instantiate(Graph* graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p, CUgraphExec* out);
/// Forgets it; what is queued still runs.
CUresult destroy_exec(CUgraphExec handle);

/// Queues every node: on the lanes, behind the stream's last operation and the latest launch, in the order
/// that the edges demand and no other; the stream's next operation comes after all of them. Nothing is queued
/// if the call fails.
CUresult launch_graph(Driver& d, const std::shared_ptr<GraphExec>& exec,
                      const std::shared_ptr<Stream>& stream);
/// Ordered like a launch; does nothing else.
CUresult upload_graph(Driver& d, const std::shared_ptr<GraphExec>& exec,
                      const std::shared_ptr<Stream>& stream);

}  // namespace simgpu
