#include <algorithm>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/capture.h"
#include "tools/simgpu/driver/graph_build.h"

/// Stream capture on the driver API's page "Stream Management".
namespace simgpu {
namespace {

CUresult begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode) {
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : begin_capture(stream, mode, nullptr, {});
}

/// What the three versions of cuStreamGetCaptureInfo return; every output but the status is optional.
CUresult capture_info(const std::shared_ptr<Stream>& stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** after, const CUgraphEdgeData** edges,
                      std::size_t* count) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr || (edges != nullptr && after == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult legacy = check_legacy(*stream);
  if (legacy != CUDA_SUCCESS) return legacy;
  if (stream->capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  StreamCapture& mine = *stream->capture;
  *status =
      mine.sequence->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (mine.sequence->invalidated) return CUDA_SUCCESS;
  mine.edges.assign(mine.after.size(), CUgraphEdgeData{});
  if (id != nullptr) *id = mine.sequence->id;
  if (graph != nullptr) *graph = handle_of(mine.sequence->graph);
  if (after != nullptr) *after = mine.after.data();
  if (edges != nullptr) *edges = mine.edges.data();
  if (count != nullptr) *count = mine.after.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(const std::shared_ptr<Stream>& stream, const CUgraphNode* nodes,
                             const CUgraphEdgeData* data, std::size_t count, unsigned flags) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  StreamCapture& mine = *stream->capture;
  if (mine.sequence->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*> read;
  CUresult result = check_edge_data(data, count);
  if (result == CUDA_SUCCESS) result = read_nodes(mine.sequence->graph, nodes, count, &read);
  if (result != CUDA_SUCCESS) return result;
  std::vector<CUgraphNode> after;
  if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) after = mine.after;
  for (GraphNode* node : read) {
    if (std::find(after.begin(), after.end(), handle_of(node)) == after.end()) {
      after.push_back(handle_of(node));
    }
  }
  mine.after = std::move(after);
  return CUDA_SUCCESS;
}

}  // namespace

/// The first version has no mode: it is that of the calls before modes came, global.
SIMGPU_API_TWINS(cuStreamBeginCapture, _ptsz, (CUstream handle), handle) {
  return begin(d.find_stream(&context, handle, per_thread), CU_STREAM_CAPTURE_MODE_GLOBAL);
}
SIMGPU_API_TWINS(cuStreamBeginCapture_v2, _ptsz, (CUstream handle, CUstreamCaptureMode mode), handle, mode) {
  return begin(d.find_stream(&context, handle, per_thread), mode);
}

SIMGPU_API_TWINS(cuStreamBeginCaptureToGraph, _ptsz,
                 (CUstream handle, CUgraph graph_handle, const CUgraphNode* nodes,
                  const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode),
                 handle, graph_handle, nodes, data, count, mode) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Graph* graph = Graph::find(graph_handle);
  if (graph == nullptr || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after;
  CUresult result = check_edge_data(data, count);
  if (result == CUDA_SUCCESS) result = read_nodes(graph, nodes, count, &after);
  return result == CUDA_SUCCESS ? begin_capture(stream, mode, graph, after) : result;
}

SIMGPU_API_TWINS(cuStreamEndCapture, _ptsz, (CUstream handle, CUgraph* out), handle, out) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE : end_capture(stream, out);
}

SIMGPU_API_TWINS(cuStreamIsCapturing, _ptsz, (CUstream handle, CUstreamCaptureStatus* status), handle,
                 status) {
  return capture_info(d.find_stream(&context, handle, per_thread), status, nullptr, nullptr, nullptr, nullptr,
                      nullptr);
}

SIMGPU_API_TWINS(cuStreamGetCaptureInfo, _ptsz,
                 (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id), handle, status, id) {
  return capture_info(d.find_stream(&context, handle, per_thread), status, id, nullptr, nullptr, nullptr,
                      nullptr);
}
SIMGPU_API_TWINS(cuStreamGetCaptureInfo_v2, _ptsz,
                 (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** after, size_t* count),
                 handle, status, id, graph, after, count) {
  return capture_info(d.find_stream(&context, handle, per_thread), status, id, graph, after, nullptr, count);
}
SIMGPU_API_TWINS(cuStreamGetCaptureInfo_v3, _ptsz,
                 (CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** after, const CUgraphEdgeData** edges, size_t* count),
                 handle, status, id, graph, after, edges, count) {
  return capture_info(d.find_stream(&context, handle, per_thread), status, id, graph, after, edges, count);
}

SIMGPU_API_TWINS(cuStreamUpdateCaptureDependencies, _ptsz,
                 (CUstream handle, CUgraphNode* nodes, size_t count, unsigned flags), handle, nodes, count,
                 flags) {
  return update_dependencies(d.find_stream(&context, handle, per_thread), nodes, nullptr, count, flags);
}
SIMGPU_API_TWINS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
                 (CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                  unsigned flags),
                 handle, nodes, data, count, flags) {
  return update_dependencies(d.find_stream(&context, handle, per_thread), nodes, data, count, flags);
}

SIMGPU_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(thread_capture_mode(), *mode);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
