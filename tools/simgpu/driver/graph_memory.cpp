#include "tools/simgpu/driver/graph_memory.h"

#include <limits>
#include <unordered_map>

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/graph.h"
#include "tools/simgpu/driver/pool.h"

namespace simgpu {
namespace {

/// Every allocation that there is, by address. Leaked.
std::unordered_map<CUdeviceptr, std::weak_ptr<GraphAllocation>>& all() {
  static auto* map = new std::unordered_map<CUdeviceptr, std::weak_ptr<GraphAllocation>>;
  return *map;
}

}  // namespace

GraphAllocation::~GraphAllocation() {
  all().erase(base);
  pool->release(base, last_use);
}

std::shared_ptr<GraphAllocation> find_graph_allocation(CUdeviceptr base) {
  const auto it = all().find(base);
  return it == all().end() ? nullptr : it->second.lock();
}

Pool& graph_pool(Driver& d, Gpu& gpu) {
  if (gpu.graph_pool == nullptr) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu.ordinal};
    auto made = std::make_shared<Pool>(d, gpu, props);
    gpu.graph_pool = made.get();
    // It keeps what it has until cuDeviceGraphMemTrim.
    const cuuint64_t everything = std::numeric_limits<cuuint64_t>::max();
    made->set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything);
    d.pools.emplace(made->handle(), std::move(made));
  }
  return *gpu.graph_pool;
}

CUresult new_graph_allocation(Driver& d, Gpu& gpu, const Graph& graph, std::size_t bytes,
                              std::shared_ptr<GraphAllocation>* out) {
  Pool& pool = graph_pool(d, gpu);
  std::uint64_t base = 0;
  const CUresult result = pool.reserve(bytes, &base);
  if (result != CUDA_SUCCESS) return result;
  *out = std::make_shared<GraphAllocation>(&pool, base, bytes);
  (*out)->graph = graph.id();
  all()[base] = *out;
  return CUDA_SUCCESS;
}

CUresult claim_graph_free(const Graph& graph, CUdeviceptr base, FreeWork* out) {
  const std::shared_ptr<GraphAllocation> allocation = find_graph_allocation(base);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool own = allocation->graph == graph.id();
  std::shared_ptr<const void> claim = allocation->freed_by_another.lock();
  if (!allocation->freed_by_owner.expired() || (own && claim != nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : graph.nodes()) {
    const auto* free = std::get_if<FreeWork>(&node->work);
    if (free != nullptr && free->address == base) return CUDA_ERROR_INVALID_VALUE;
  }
  if (claim == nullptr) claim = std::make_shared<char>();
  (own ? allocation->freed_by_owner : allocation->freed_by_another) = claim;
  *out = FreeWork{base, std::move(claim)};
  return CUDA_SUCCESS;
}

CUresult free_graph_allocation(Driver& d, const std::shared_ptr<GraphAllocation>& allocation,
                               const std::shared_ptr<Stream>& stream) {
  if (allocation->live == nullptr) return CUDA_ERROR_INVALID_VALUE;
  allocation->live.reset();
  Operation operation;
  operation.work = PoolChange{allocation->pool->shared_from_this(), allocation->base, allocation->size, false,
                              allocation->use};
  allocation->last_use = Wait{stream, d.scheduler.enqueue(stream, std::move(operation))};
  return CUDA_SUCCESS;
}

CUresult free_graph_allocation_now(const std::shared_ptr<GraphAllocation>& allocation) {
  if (allocation->live == nullptr) return CUDA_ERROR_INVALID_VALUE;
  allocation->live.reset();
  allocation->pool->end(allocation->base, *allocation->use);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
