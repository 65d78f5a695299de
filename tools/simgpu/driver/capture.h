#pragma once

#include <memory>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/graph.h"
#include "tools/simgpu/driver/operation.h"

/// Stream capture: "cuStreamBeginCapture" and its neighbours on the driver API's page "Stream Management",
/// and "Creating a Graph Using Stream Capture" in the CUDA C++ Programming Guide. All functions are called
/// with the driver's lock held.
namespace simgpu {

struct Context;
struct Driver;
class Pool;
struct Event;
struct Stream;
enum class Entry : std::uint16_t;

/// One capture sequence, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  std::uint64_t id = 0;  ///< never used again in this process
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t thread = 0;  ///< token of the thread that began it
  Graph* graph = nullptr;    ///< null once a sequence with a graph of its own is invalidated
  std::unique_ptr<Graph> owned;
  bool invalidated = false;
  bool ended = false;
  std::vector<std::shared_ptr<Stream>> streams;  ///< those that take part; the origin is the first
};

/// What a stream that takes part knows: the nodes that the next one depends on.
struct StreamCapture {
  std::shared_ptr<Capture> sequence;
  std::vector<CUgraphNode> after;
  std::vector<CUgraphEdgeData> edges;  ///< zero for each of `after`: what cuStreamGetCaptureInfo points to
};

/// What an event stands for that was recorded in a capturing stream.
struct CapturedEvent {
  std::shared_ptr<Capture> sequence;
  std::vector<CUgraphNode> after;
};

/// True while a sequence has begun and not ended, in any thread. Cheap.
bool anything_captures() noexcept;
/// The thread's capture mode.
CUstreamCaptureMode& thread_capture_mode() noexcept;

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, Graph* into,
                       const std::vector<GraphNode*>& after);
/// Takes all streams out of the sequence, whatever the result. `*out` is null on failure.
CUresult end_capture(const std::shared_ptr<Stream>& stream, CUgraph* out);
/// Drops the sequences that have a stream in this context, which ends.
void drop_captures(const Context* context);
/// Breaks a sequence: the programming guide's "Invalidation".
void invalidate(Capture* capture);

/// The gate of everything that is queued. True: the stream takes part in a sequence, or may not be used
/// beside one, and `*result` is the call's answer. A node was added if it is CUDA_SUCCESS.
bool capture_takes(Driver& d, const std::shared_ptr<Stream>& stream, decltype(Operation::work)* work,
                   CUresult* result);
/// The same gate for what only some calls add.
CUresult capture_node(Stream& stream, NodeWork&& work);
/// cuMemAllocAsync and cuMemFreeAsync in a stream that captures: memory of the graph.
CUresult capture_alloc(Driver& d, Stream& stream, Pool& pool, std::size_t bytes, CUdeviceptr* out);
CUresult capture_free(Stream& stream, CUdeviceptr base);
/// What an operation that cannot be captured answers. CUDA_SUCCESS if the stream may be used at all.
CUresult refuse_in_capture(Stream& stream);

/// cuEventRecord in a stream: true if the sequence has taken it.
bool capture_record(Stream& stream, Event* event, CUevent handle, bool external, CUresult* result);
/// cuStreamWaitEvent: true if it joined, forked or was refused.
bool capture_wait(const std::shared_ptr<Stream>& stream, Event* event, CUevent handle, bool external,
                  CUresult* result);

/// Whether this call is allowed beside the sequences there are, by capture_unsafe.def and the thread's mode.
CUresult check_unsafe(Entry entry);
/// The same for calls that wait for a stream, an event or a context, or ask about it. What is captured is not
/// scheduled, so that no mode of the thread allows it.
CUresult may_wait(const Stream& stream);
CUresult may_wait(const Event& event);
CUresult may_wait(const Context& context);
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while a blocking stream of its context captures.
CUresult check_legacy(const Stream& stream);

}  // namespace simgpu
