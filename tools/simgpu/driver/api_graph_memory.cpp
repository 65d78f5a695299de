#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph_build.h"
#include "tools/simgpu/driver/graph_memory.h"
#include "tools/simgpu/driver/pool.h"

/// "Graph Management" of the CUDA driver API: nodes that allocate and free memory, and the memory of graphs.
namespace simgpu {
namespace {

/// Graphs that take no node of this kind: child graphs that were moved, and what is no graph.
bool takes_memory_nodes(const Graph* graph) {
  return graph != nullptr && !graph->moved && graph->parent == nullptr;
}

/// The attribute of a pool that an attribute of graph memory is.
CUresult pool_attribute(CUgraphMem_attribute attribute, CUmemPool_attribute* out) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *out = CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *out = CU_MEMPOOL_ATTR_USED_MEM_HIGH;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *out = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *out = CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Asks or tells the device's graph pool, by its attribute of the same meaning.
template <class Function, class Value>
CUresult with_attribute(Driver& d, CUdevice dev, CUgraphMem_attribute attribute, Value* value,
                        Function function) {
  Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  CUmemPool_attribute of_pool{};
  const CUresult known = pool_attribute(attribute, &of_pool);
  if (known != CUDA_SUCCESS || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return (graph_pool(d, *gpu).*function)(of_pool, value);
}

}  // namespace

SIMGPU_API(cuGraphAddMemAllocNode,
           (CUgraphNode * out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
            CUDA_MEM_ALLOC_NODE_PARAMS* params),
           out, handle, dependencies, count, params) {
  Graph* graph = Graph::find(handle);
  if (out == nullptr || params == nullptr || !takes_memory_nodes(graph)) return CUDA_ERROR_INVALID_VALUE;
  const CUmemPoolProps& props = params->poolProps;
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || params->bytesize == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE || params->accessDescCount != 0 ||
      props.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // shared memory, peers, memory of the host
  }
  Gpu* gpu = d.gpu_at(props.location.id);
  std::vector<GraphNode*> after;
  if (gpu == nullptr || read_nodes(graph, dependencies, count, &after) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AllocWork work;
  work.properties = props;
  const CUresult made = new_graph_allocation(d, *gpu, *graph, params->bytesize, &work.allocation);
  if (made != CUDA_SUCCESS) return made;
  params->dptr = work.allocation->base;
  *out = handle_of(graph->add(std::move(work), after));
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out), node, out) {
  const auto* work = work_as<AllocWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = CUDA_MEM_ALLOC_NODE_PARAMS{work->properties, nullptr, 0, work->allocation->size,
                                    work->allocation->base};
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphAddMemFreeNode,
           (CUgraphNode * out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
            CUdeviceptr base),
           out, handle, dependencies, count, base) {
  Graph* graph = Graph::find(handle);
  std::vector<GraphNode*> after;
  if (out == nullptr || !takes_memory_nodes(graph)) return CUDA_ERROR_INVALID_VALUE;
  FreeWork work;
  CUresult result = read_nodes(graph, dependencies, count, &after);
  if (result == CUDA_SUCCESS) result = claim_graph_free(*graph, base, &work);
  if (result == CUDA_SUCCESS) *out = handle_of(graph->add(std::move(work), after));
  return result;
}

SIMGPU_API(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* out), node, out) {
  const auto* work = work_as<FreeWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = work->address;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGraphMemTrim, (CUdevice dev), dev) {
  Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  graph_pool(d, *gpu).trim(0);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void* value), dev,
           attribute, value) {
  return with_attribute(d, dev, attribute, value, &Pool::get);
}

/// Only the high watermarks, and only to zero.
SIMGPU_API(cuDeviceSetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void* value), dev,
           attribute, value) {
  return with_attribute(d, dev, attribute, value, &Pool::set);
}

}  // namespace simgpu
