#include "tools/simgpu/driver/graph_params.h"

#include <cstring>

#include "tools/simgpu/driver/launch_request.h"
#include "tools/simgpu/driver/transfer.h"

namespace simgpu {
namespace {

CUlaunchConfig shape_of(const KernelWork& work) {
  return CUlaunchConfig{work.grid[0],  work.grid[1],        work.grid[2], work.block[0], work.block[1],
                        work.block[2], work.dynamic_shared, nullptr,      nullptr,       0};
}

bool zero(const void* from, std::size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (byte[i] != 0) return false;
  }
  return true;
}

/// "All bytes past the utilized union member must be zero."
template <class Member>
bool rest_is_zero(const CUgraphNodeParams& p, const Member& used) {
  const auto* end = reinterpret_cast<const unsigned char*>(&p) + sizeof p;
  const auto* from = reinterpret_cast<const unsigned char*>(&used) + sizeof used;
  return zero(p.reserved0, sizeof p.reserved0) && zero(from, static_cast<std::size_t>(end - from));
}

template <class Work>
CUresult store(CUresult result, Work&& work, NodeWork* out) {
  if (result == CUDA_SUCCESS) *out = std::forward<Work>(work);
  return result;
}

CUresult any_kernel(Driver& d, Context* current, const CUDA_KERNEL_NODE_PARAMS_v3& p, NodeWork* out) {
  CUDA_KERNEL_NODE_PARAMS_v2 same{};
  static_assert(sizeof same == sizeof p);
  std::memcpy(&same, &p, sizeof same);
  KernelWork work;
  const CUresult result = kernel_work(d, current, same, &work);
  return store(result, std::move(work), out);
}

}  // namespace

CUDA_KERNEL_NODE_PARAMS_v2 widen(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide{};
  static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern) == sizeof p);
  std::memcpy(&wide, &p, sizeof p);
  return wide;
}

CUDA_MEMSET_NODE_PARAMS_v2 with_context(const CUDA_MEMSET_NODE_PARAMS& p, CUcontext context) {
  return CUDA_MEMSET_NODE_PARAMS_v2{p.dst, p.pitch, p.value, p.elementSize, p.width, p.height, context};
}

Context* living_context(Driver& d, CUcontext handle) {
  const auto it = d.contexts.find(handle);
  return it == d.contexts.end() || !it->second->alive ? nullptr : it->second;
}

CUresult kernel_work(Driver& d, Context* current, const CUDA_KERNEL_NODE_PARAMS_v2& p, KernelWork* out) {
  Context* context = p.ctx == nullptr ? current : living_context(d, p.ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  KernelWork work;
  work.function = p.func;
  work.kernel_handle = p.func == nullptr ? p.kern : nullptr;
  work.context = handle_of(context);
  work.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  work.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  work.dynamic_shared = p.sharedMemBytes;
  work.packed = p.extra != nullptr;
  Launch launch;
  const auto handle = reinterpret_cast<CUfunction>(const_cast<void*>(work.handle()));
  const CUresult result =
      make_launch(d, *context, handle, shape_of(work), p.kernelParams, p.extra, false, &launch);
  if (result != CUDA_SUCCESS) return result;
  work.params = std::move(launch.params);
  *out = std::move(work);
  return CUDA_SUCCESS;
}

CUresult read_kernel(Driver& d, KernelWork* work, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  const auto kernel = d.kernels.find(work->handle());
  if (kernel == d.kernels.end() || kernel->second->param_bytes() != work->params.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUDA_KERNEL_NODE_PARAMS_v2 p{};
  p.func = work->function;
  p.kern = work->kernel_handle;
  p.ctx = work->context;
  p.gridDimX = work->grid[0];
  p.gridDimY = work->grid[1];
  p.gridDimZ = work->grid[2];
  p.blockDimX = work->block[0];
  p.blockDimY = work->block[1];
  p.blockDimZ = work->block[2];
  p.sharedMemBytes = work->dynamic_shared;
  if (work->packed) {
    work->packed_bytes = work->params.size();
    work->extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, work->params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &work->packed_bytes, CU_LAUNCH_PARAM_END};
    p.extra = work->extra.data();
  } else if (!work->params.empty()) {
    work->param_pointers.clear();
    for (const SimgpuParam& param : kernel->second->params) {
      work->param_pointers.push_back(work->params.data() + param.offset);
    }
    p.kernelParams = work->param_pointers.data();
  }
  *out = p;
  return CUDA_SUCCESS;
}

CUresult memcpy_work(Driver& d, const CUDA_MEMCPY3D* copy, CUcontext context, MemcpyWork* out) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (living_context(d, context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CopyRequest request;
  CUresult result = request_of(*copy, &request);
  if (result != CUDA_SUCCESS) return result;
  // The documentation says of updates that zero-length operations are not supported, of new nodes nothing.
  if (request.width == 0 || request.height == 0 || request.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  Copy checked;
  result = make_copy(d, request, &checked);
  if (result == CUDA_SUCCESS) *out = MemcpyWork{*copy, context};
  return result;
}

CUresult memset_work(Driver& d, const CUDA_MEMSET_NODE_PARAMS_v2& p, MemsetWork* out) {
  if (living_context(d, p.ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  if (p.width == 0 || p.height == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = check_fill(d, fill_of(MemsetWork{p}));
  if (result == CUDA_SUCCESS) *out = MemsetWork{p};
  return result;
}

CUresult host_work(CUhostFn function, void* argument, HostWork* out) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = HostWork{function, argument};
  return CUDA_SUCCESS;
}

CUresult child_work(CUgraph handle, ChildWork* out) {
  const Graph* graph = Graph::find(handle);
  if (graph == nullptr || graph->capturing || graph->moved) return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
  out->graph = graph->clone();
  return CUDA_SUCCESS;
}

CUresult check_event(Driver& d, CUevent event) {
  return d.events.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult any_work(Driver& d, Context* current, const CUgraphNodeParams& p, NodeWork* out) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      if (!rest_is_zero(p, p.kernel)) return CUDA_ERROR_INVALID_VALUE;
      return any_kernel(d, current, p.kernel, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      if (!rest_is_zero(p, p.memcpy) || p.memcpy.flags != 0 || p.memcpy.reserved != 0) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      MemcpyWork work;
      const CUresult result = memcpy_work(d, &p.memcpy.copyParams, p.memcpy.copyCtx, &work);
      return store(result, work, out);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      if (!rest_is_zero(p, p.memset)) return CUDA_ERROR_INVALID_VALUE;
      MemsetWork work;
      const CUresult result = memset_work(d, p.memset, &work);
      return store(result, work, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      if (!rest_is_zero(p, p.host)) return CUDA_ERROR_INVALID_VALUE;
      HostWork work;
      const CUresult result = host_work(p.host.fn, p.host.userData, &work);
      return store(result, work, out);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      if (!rest_is_zero(p, p.graph) || p.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      ChildWork work;
      const CUresult result = child_work(p.graph.graph, &work);
      return store(result, std::move(work), out);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      if (!zero(p.reserved0, sizeof p.reserved0) || !zero(p.reserved1, sizeof p.reserved1)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      return store(CUDA_SUCCESS, EmptyWork{}, out);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      if (!rest_is_zero(p, p.eventWait)) return CUDA_ERROR_INVALID_VALUE;
      return store(check_event(d, p.eventWait.event), EventWaitWork{p.eventWait.event}, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      if (!rest_is_zero(p, p.eventRecord)) return CUDA_ERROR_INVALID_VALUE;
      return store(check_event(d, p.eventRecord.event), EventRecordWork{p.eventRecord.event}, out);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult launch_of(Driver& d, const KernelWork& work, Launch* out) {
  // Its library may have been unloaded since the node was made.
  const auto kernel = d.kernels.find(work.handle());
  if (kernel == d.kernels.end() || kernel->second->param_bytes() != work.params.size()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  Context* context = living_context(d, work.context);
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  out->kernel = keep(*kernel->second);
  out->grid = work.grid;
  out->block = work.block;
  out->dynamic_shared = work.dynamic_shared;
  out->params = work.params;
  return CUDA_SUCCESS;
}

Copy copy_of(Driver& d, const MemcpyWork& work) {
  CopyRequest request;
  request_of(work.copy, &request);
  Copy copy;
  if (make_copy(d, request, &copy) != CUDA_SUCCESS) {
    // The sides as the structure names them: the copy then runs into whatever is there now.
    copy.dst_device = work.copy.dstMemoryType != CU_MEMORYTYPE_HOST;
    copy.src_device = work.copy.srcMemoryType != CU_MEMORYTYPE_HOST;
  }
  return copy;
}

Fill fill_of(const MemsetWork& work) {
  Fill fill;
  fill.dst = work.fill.dst;
  fill.pitch = work.fill.height > 1 ? work.fill.pitch : 0;
  fill.width = work.fill.width;
  fill.height = work.fill.height;
  fill.element = work.fill.elementSize;
  fill.value = work.fill.value;
  return fill;
}

}  // namespace simgpu
