#pragma once

#include <memory>
#include <optional>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/operation.h"

/// Memory that graphs allocate: "Graph Memory Nodes" in the CUDA C++ Programming Guide. The driver's lock
/// protects it.
namespace simgpu {

struct Driver;
struct FreeWork;
struct Gpu;
class Graph;
class Pool;

/// What an allocation node stands for. The address is fixed when the node is made. The memory is held from
/// then on, until the graph, its executable graph and the allocation itself have ended; work may touch it
/// from the allocation in a launch to the free.
struct GraphAllocation {
  GraphAllocation(Pool* from, std::uint64_t address, std::uint64_t bytes)
      : pool(from), base(address), size(bytes) {}
  GraphAllocation(const GraphAllocation&) = delete;
  GraphAllocation& operator=(const GraphAllocation&) = delete;
  /// Gives the memory back, behind `last_use`.
  ~GraphAllocation();

  Pool* const pool;
  const std::uint64_t base;
  const std::uint64_t size;
  std::uint64_t graph = 0;                                       ///< id of the graph that owns it
  std::weak_ptr<const void> freed_by_owner;                      ///< claim of the owner's free node for it
  std::weak_ptr<const void> freed_by_another;                    ///< claim of the free nodes of other graphs
  std::shared_ptr<PieceUse> use = std::make_shared<PieceUse>();  ///< the latest
  std::optional<Wait> last_use;  ///< the end of the latest launch that allocated or freed it
  /// Itself while it is allocated, as the calls so far decide: it then outlives its graph.
  std::shared_ptr<GraphAllocation> live;
};

/// The allocation that starts at this address, or null.
std::shared_ptr<GraphAllocation> find_graph_allocation(CUdeviceptr base);
/// Memory for a new allocation node of this graph.
CUresult new_graph_allocation(Driver& d, Gpu& gpu, const Graph& graph, std::size_t bytes,
                              std::shared_ptr<GraphAllocation>* out);
/// The work of a free node in this graph. CUDA_ERROR_INVALID_VALUE for an address that no allocation node
/// gave, and for a second free.
CUresult claim_graph_free(const Graph& graph, CUdeviceptr base, FreeWork* out);
/// cuMemFreeAsync of an allocation that lives on after its graph's launch, and cuMemFree, when no work is
/// queued.
CUresult free_graph_allocation(Driver& d, const std::shared_ptr<GraphAllocation>& allocation,
                               const std::shared_ptr<Stream>& stream);
CUresult free_graph_allocation_now(const std::shared_ptr<GraphAllocation>& allocation);
/// The pool that holds the memory of graphs on this device; made at the first use.
Pool& graph_pool(Driver& d, Gpu& gpu);

}  // namespace simgpu
