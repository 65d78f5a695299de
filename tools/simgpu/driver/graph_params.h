#pragma once

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph.h"

/// From the driver API's structures to the work of a node and back. What points to memory of the caller is
/// copied when a node's parameters are set; what a read-out points to belongs to the node.
namespace simgpu {

/// The first version of the structure, which ends before `kern` and `ctx`, as the second.
CUDA_KERNEL_NODE_PARAMS_v2 widen(const CUDA_KERNEL_NODE_PARAMS_v1& p);
/// The memset of the old calls, which get the context beside the structure.
CUDA_MEMSET_NODE_PARAMS_v2 with_context(const CUDA_MEMSET_NODE_PARAMS& p, CUcontext context);

/// `current` is the context that a null context in the structure stands for; null: there is none.
CUresult kernel_work(Driver& d, Context* current, const CUDA_KERNEL_NODE_PARAMS_v2& p, KernelWork* out);
/// The pointers in `*out` stay valid until the parameters are set or read again.
CUresult read_kernel(Driver& d, KernelWork* work, CUDA_KERNEL_NODE_PARAMS_v2* out);
CUresult memcpy_work(Driver& d, const CUDA_MEMCPY3D* copy, CUcontext context, MemcpyWork* out);
CUresult memset_work(Driver& d, const CUDA_MEMSET_NODE_PARAMS_v2& p, MemsetWork* out);
CUresult host_work(CUhostFn function, void* argument, HostWork* out);
/// A copy. CUDA_ERROR_INVALID_VALUE for a graph with nodes that allocate or free memory: it can only be
/// moved.
CUresult child_work(CUgraph graph, ChildWork* out);
/// For both kinds of event node: is it an event?
CUresult check_event(Driver& d, CUevent event);
/// The work that a tagged union describes, except for nodes that allocate or free memory and for moved child
/// graphs, which are not made without a graph. Types that simgpu lacks: CUDA_ERROR_NOT_SUPPORTED.
CUresult any_work(Driver& d, Context* current, const CUgraphNodeParams& p, NodeWork* out);

/// What a node queues when its graph is launched. The memory that it touches is not checked again: a node
/// whose memory is gone fails when it runs, as on hardware.
CUresult launch_of(Driver& d, const KernelWork& work, Launch* out);
Copy copy_of(Driver& d, const MemcpyWork& work);
Fill fill_of(const MemsetWork& work);

/// The context with this handle if it is alive, or null.
Context* living_context(Driver& d, CUcontext handle);

}  // namespace simgpu
