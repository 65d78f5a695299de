#include <cstring>

#include "tools/simgpu/driver/graph_build.h"
#include "tools/simgpu/driver/graph_exec.h"
#include "tools/simgpu/driver/graph_params.h"

/// "Graph Management" of the CUDA driver API: kernel nodes.
namespace simgpu {
namespace {

CUresult add_kernel(Driver& d, CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                    std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v2& params) {
  KernelWork work;
  const CUresult made = kernel_work(d, current_context(), params, &work);
  return made == CUDA_SUCCESS ? add_node(Graph::find(graph), dependencies, count, std::move(work), out)
                              : made;
}

CUresult get_kernel(Driver& d, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  auto* work = work_as<KernelWork>(node);
  return work == nullptr ? CUDA_ERROR_INVALID_VALUE : read_kernel(d, work, out);
}

CUresult set_kernel(Driver& d, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2& params) {
  KernelWork work;
  const CUresult made = kernel_work(d, current_context(), params, &work);
  const auto* old = work_as<KernelWork>(node);
  if (old != nullptr && old->cooperative() && work.packed) return CUDA_ERROR_INVALID_VALUE;
  return made == CUDA_SUCCESS ? set_work(GraphNode::find(node), std::move(work)) : made;
}

CUresult check_attribute(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

SIMGPU_API(cuGraphAddKernelNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            const CUDA_KERNEL_NODE_PARAMS_v1* params),
           out, graph, dependencies, count, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_kernel(d, out, graph, dependencies, count, widen(*params));
}
SIMGPU_API(cuGraphAddKernelNode_v2,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
            const CUDA_KERNEL_NODE_PARAMS* params),
           out, graph, dependencies, count, params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_kernel(d, out, graph, dependencies, count, *params);
}

SIMGPU_API(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out), node, out) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide{};
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult read = get_kernel(d, node, &wide);
  if (read == CUDA_SUCCESS) std::memcpy(out, &wide, sizeof *out);
  return read;
}
SIMGPU_API(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out), node, out) {
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE : get_kernel(d, node, out);
}

SIMGPU_API(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params), node,
           params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : set_kernel(d, node, widen(*params));
}
SIMGPU_API(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params), node,
           params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : set_kernel(d, node, *params);
}

SIMGPU_API(cuGraphKernelNodeGetAttribute,
           (CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* out), node, id, out) {
  const auto* work = work_as<KernelWork>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult known = check_attribute(id);
  if (known != CUDA_SUCCESS) return known;
  const auto it = work->attributes.find(id);
  *out = it == work->attributes.end() ? CUkernelNodeAttrValue{} : it->second;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphKernelNodeSetAttribute,
           (CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value), node, id, value) {
  auto* work = work_as<KernelWork>(node);
  if (work == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult known = check_attribute(id);
  if (known != CUDA_SUCCESS) return known;
  // A cooperative kernel cannot have its parameters in one buffer.
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value->cooperative != 0 && work->packed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  work->attributes[id] = *value;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuGraphKernelNodeCopyAttributes, (CUgraphNode to, CUgraphNode from), to, from) {
  auto* target = work_as<KernelWork>(to);
  const auto* source = work_as<KernelWork>(from);
  if (target == nullptr || source == nullptr || target->context != source->context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  target->attributes = source->attributes;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
