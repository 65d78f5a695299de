#include "tools/simgpu/runtime/runtime.h"

/// Stream capture: the part of "Stream Management" of the CUDA runtime API that makes graphs.

namespace simgpu::runtime {

SIMGPU_FORWARD_TWINS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode),
                     (stream, mode), d.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)))

SIMGPU_FORWARD_TWINS(cudaStreamBeginCaptureToGraph, _ptsz,
                     (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                      const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                     (stream, graph, dependencies, edges, count, mode),
                     d.cuStreamBeginCaptureToGraph(stream, graph, dependencies, same<CUgraphEdgeData>(edges),
                                                   count, static_cast<CUstreamCaptureMode>(mode)))

SIMGPU_FORWARD_TWINS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph),
                     d.cuStreamEndCapture(stream, graph))

SIMGPU_FORWARD_TWINS(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                     (stream, status), d.cuStreamIsCapturing(stream, same<CUstreamCaptureStatus>(status)))

SIMGPU_FORWARD_TWINS(cudaStreamGetCaptureInfo, _ptsz,
                     (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                      cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                      const cudaGraphEdgeData** edges, size_t* count),
                     (stream, status, id, graph, dependencies, edges, count),
                     d.cuStreamGetCaptureInfo(stream, same<CUstreamCaptureStatus>(status),
                                              same<cuuint64_t>(id), graph, dependencies,
                                              same<const CUgraphEdgeData*>(edges), count))

SIMGPU_FORWARD_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
                     (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                      size_t count, unsigned flags),
                     (stream, dependencies, edges, count, flags),
                     d.cuStreamUpdateCaptureDependencies(stream, dependencies, same<CUgraphEdgeData>(edges),
                                                         count, flags))

SIMGPU_FORWARD(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
               d.cuThreadExchangeStreamCaptureMode(same<CUstreamCaptureMode>(mode)))

}  // namespace simgpu::runtime
