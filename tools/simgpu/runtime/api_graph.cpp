#include "tools/simgpu/runtime/runtime.h"

/// "Graph Management" of the CUDA runtime API: whole graphs, their shape, and executable graphs.

namespace simgpu::runtime {

SIMGPU_FORWARD(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), d.cuGraphCreate(graph, flags))
SIMGPU_FORWARD(cudaGraphDestroy, (cudaGraph_t graph), d.cuGraphDestroy(graph))
SIMGPU_FORWARD(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), d.cuGraphClone(clone, graph))
SIMGPU_FORWARD(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned flags),
               d.cuGraphDebugDotPrint(graph, path, flags | CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES))

// Shape.
SIMGPU_FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
               d.cuGraphGetNodes(graph, nodes, count))
SIMGPU_FORWARD(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
               d.cuGraphGetRootNodes(graph, nodes, count))
SIMGPU_FORWARD(cudaGraphGetEdges,
               (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                size_t* count),
               d.cuGraphGetEdges(graph, from, to, same<CUgraphEdgeData>(edges), count))
SIMGPU_FORWARD(cudaGraphNodeGetDependencies,
               (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count),
               d.cuGraphNodeGetDependencies(node, nodes, same<CUgraphEdgeData>(edges), count))
SIMGPU_FORWARD(cudaGraphNodeGetDependentNodes,
               (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, size_t* count),
               d.cuGraphNodeGetDependentNodes(node, nodes, same<CUgraphEdgeData>(edges), count))
SIMGPU_FORWARD(cudaGraphAddDependencies,
               (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* edges, size_t count),
               d.cuGraphAddDependencies(graph, from, to, same<CUgraphEdgeData>(edges), count))
SIMGPU_FORWARD(cudaGraphRemoveDependencies,
               (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* edges, size_t count),
               d.cuGraphRemoveDependencies(graph, from, to, same<CUgraphEdgeData>(edges), count))
SIMGPU_FORWARD(cudaGraphDestroyNode, (cudaGraphNode_t node), d.cuGraphDestroyNode(node))
SIMGPU_FORWARD(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
               d.cuGraphNodeGetType(node, same<CUgraphNodeType>(type)))
SIMGPU_FORWARD(cudaGraphNodeFindInClone, (cudaGraphNode_t * found, cudaGraphNode_t node, cudaGraph_t clone),
               d.cuGraphNodeFindInClone(found, node, clone))

// Executable graphs.
SIMGPU_FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
               d.cuGraphInstantiateWithFlags(exec, graph, flags))
SIMGPU_FORWARD(cudaGraphInstantiateWithFlags,
               (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
               d.cuGraphInstantiateWithFlags(exec, graph, flags))
SIMGPU_FORWARD_TWINS(cudaGraphInstantiateWithParams, _ptsz,
                     (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* params),
                     (exec, graph, params),
                     d.cuGraphInstantiateWithParams(exec, graph, same<CUDA_GRAPH_INSTANTIATE_PARAMS>(params)))
SIMGPU_FORWARD(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
               d.cuGraphExecGetFlags(exec, same<cuuint64_t>(flags)))
SIMGPU_FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t exec), d.cuGraphExecDestroy(exec))
SIMGPU_FORWARD(cudaGraphExecUpdate,
               (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result),
               d.cuGraphExecUpdate(exec, graph, same<CUgraphExecUpdateResultInfo>(result)))
SIMGPU_FORWARD_TWINS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream),
                     d.cuGraphUpload(exec, stream))
SIMGPU_FORWARD_TWINS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream),
                     d.cuGraphLaunch(exec, stream))
SIMGPU_FORWARD(cudaGraphNodeSetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled),
               d.cuGraphNodeSetEnabled(exec, node, enabled))
SIMGPU_FORWARD(cudaGraphNodeGetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled),
               d.cuGraphNodeGetEnabled(exec, node, enabled))

// User objects.
SIMGPU_FORWARD(cudaUserObjectCreate,
               (cudaUserObject_t * object, void* pointer, cudaHostFn_t destroy, unsigned references,
                unsigned flags),
               d.cuUserObjectCreate(object, pointer, destroy, references, flags))
SIMGPU_FORWARD(cudaUserObjectRetain, (cudaUserObject_t object, unsigned count),
               d.cuUserObjectRetain(object, count))
SIMGPU_FORWARD(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count),
               d.cuUserObjectRelease(object, count))
SIMGPU_FORWARD(cudaGraphRetainUserObject,
               (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
               d.cuGraphRetainUserObject(graph, object, count, flags))
SIMGPU_FORWARD(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned count),
               d.cuGraphReleaseUserObject(graph, object, count))

}  // namespace simgpu::runtime
