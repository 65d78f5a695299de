#include "tools/simgpu/driver/capture.h"

#include <algorithm>
#include <unordered_set>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph_exec.h"

namespace simgpu {
namespace {

/// The sequences that have begun and not ended. Leaked.
std::vector<std::shared_ptr<Capture>>& active() {
  static auto* all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

void leave(Capture* capture) {
  capture->ended = true;
  if (capture->graph != nullptr) capture->graph->capturing = false;
  for (const std::shared_ptr<Stream>& stream : capture->streams) stream->capture.reset();
  capture->streams.clear();
  std::erase_if(active(), [&](const auto& other) { return other.get() == capture; });
}

/// Everything that the nodes depend on, with the nodes themselves.
std::unordered_set<const GraphNode*> ancestors(const std::vector<CUgraphNode>& of) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open;
  const auto visit = [&](const GraphNode* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  for (const CUgraphNode handle : of) visit(GraphNode::find(handle));
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    for (const GraphNode* dependency : node->dependencies) visit(dependency);
  }
  return seen;
}

/// A fork is joined if the origin's next node would depend on all that the stream's next node would. A stream
/// that was forked and captured nothing has nothing to join.
bool all_joined(const Capture& capture) {
  const auto joined = ancestors(capture.streams.front()->capture->after);
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& stream) {
    const std::vector<CUgraphNode>& after = stream->capture->after;
    return std::all_of(after.begin(), after.end(),
                       [&](CUgraphNode node) { return joined.contains(GraphNode::find(node)); });
  });
}

std::vector<CUgraphNode> handles_of(const std::vector<GraphNode*>& nodes) {
  std::vector<CUgraphNode> handles;
  for (GraphNode* node : nodes) handles.push_back(handle_of(node));
  return handles;
}

/// The thread that calls is forbidden unsafe calls by this sequence.
bool forbids(const Capture& capture) {
  const CUstreamCaptureMode mine = thread_capture_mode();
  if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == thread_token()) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return mine == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult check_unsafe_here() {
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : active()) {
    if (!forbids(*capture)) continue;
    invalidate(capture.get());
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

/// The legacy stream's work would depend on the sequence's.
bool blocks_legacy(const Capture& capture, const Stream& stream) {
  return stream.legacy && std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto& other) {
           return other->blocking && other->context == stream.context;
         });
}

/// check_legacy for calls that the sequences do not survive.
CUresult use_legacy(const Stream& stream) {
  for (const std::shared_ptr<Capture>& capture : active()) {
    if (blocks_legacy(*capture, stream)) invalidate(capture.get());
  }
  return check_legacy(stream);
}

void merge(const std::vector<CUgraphNode>& more, std::vector<CUgraphNode>* after) {
  for (const CUgraphNode node : more) {
    if (std::find(after->begin(), after->end(), node) == after->end()) after->push_back(node);
  }
}

/// A captured event: the stream takes part from now on.
CUresult wait_captured(const std::shared_ptr<Stream>& stream, const CapturedEvent& event) {
  Capture* sequence = event.sequence.get();
  if (sequence->ended) {
    if (stream->capture != nullptr) invalidate(stream->capture->sequence.get());
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (sequence->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->legacy) {
    const CUresult implicit = use_legacy(*stream);
    invalidate(sequence);
    return implicit == CUDA_SUCCESS ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : implicit;
  }
  if (stream->capture == nullptr) {
    stream->capture = std::make_unique<StreamCapture>();
    stream->capture->sequence = event.sequence;
    sequence->streams.push_back(stream);
  } else if (stream->capture->sequence.get() != sequence) {
    invalidate(stream->capture->sequence.get());
    invalidate(sequence);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  merge(event.after, &stream->capture->after);
  return CUDA_SUCCESS;
}

constexpr bool unsafe(Entry entry) {
  switch (entry) {
#define SIMGPU_UNSAFE(name) case Entry::name:
#include "tools/simgpu/driver/capture_unsafe.def"
#undef SIMGPU_UNSAFE
    return true;
    default:
      return false;
  }
}

}  // namespace

bool anything_captures() noexcept {
  return !active().empty();
}

CUstreamCaptureMode& thread_capture_mode() noexcept {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, Graph* into,
                       const std::vector<GraphNode*>& after) {
  static std::uint64_t next_id = 1;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) {
    invalidate(stream->capture->sequence.get());
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = next_id++;
  capture->mode = mode;
  capture->thread = thread_token();
  if (into == nullptr) capture->owned = std::make_unique<Graph>();
  capture->graph = into == nullptr ? capture->owned.get() : into;
  capture->graph->capturing = true;
  capture->streams.push_back(stream);
  stream->capture = std::make_unique<StreamCapture>();
  stream->capture->sequence = capture;
  stream->capture->after = handles_of(after);
  active().push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult end_capture(const std::shared_ptr<Stream>& stream, CUgraph* out) {
  *out = nullptr;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = stream->capture->sequence;
  if (capture->streams.front() != stream) {
    invalidate(capture.get());
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_token()) {
    invalidate(capture.get());
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool good = !capture->invalidated;
  const bool joined = good && all_joined(*capture);
  leave(capture.get());
  if (!good) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) {
    capture->owned.reset();
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *out = capture->owned == nullptr ? handle_of(capture->graph) : graphs().own(std::move(capture->owned));
  return CUDA_SUCCESS;
}

void drop_captures(const Context* context) {
  const std::vector<std::shared_ptr<Capture>> all = active();
  for (const std::shared_ptr<Capture>& capture : all) {
    const bool here = std::any_of(capture->streams.begin(), capture->streams.end(),
                                  [&](const auto& stream) { return stream->context == context; });
    if (here) leave(capture.get());
  }
}

/// The graph that the sequence made may go "before end of capture for certain errors": it goes at once.
void invalidate(Capture* capture) {
  if (capture->invalidated) return;
  capture->invalidated = true;
  for (const std::shared_ptr<Stream>& stream : capture->streams) stream->capture->after.clear();
  if (capture->owned == nullptr) return;
  capture->owned.reset();
  capture->graph = nullptr;
}

CUresult check_unsafe(Entry entry) {
  return unsafe(entry) ? check_unsafe_here() : CUDA_SUCCESS;
}

CUresult check_legacy(const Stream& stream) {
  const bool implicit = std::any_of(active().begin(), active().end(),
                                    [&](const auto& capture) { return blocks_legacy(*capture, stream); });
  return implicit ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult may_wait(const Stream& stream) {
  if (!anything_captures()) return CUDA_SUCCESS;
  if (stream.capture != nullptr) {
    invalidate(stream.capture->sequence.get());
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const CUresult legacy = use_legacy(stream);
  return legacy == CUDA_SUCCESS ? check_unsafe_here() : legacy;
}

CUresult may_wait(const Event& event) {
  if (event.captured == nullptr) return check_unsafe_here();
  // Of a sequence that has ended, too: the event was last recorded in a capturing stream.
  if (!event.captured->sequence->ended) invalidate(event.captured->sequence.get());
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult may_wait(const Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : active()) {
    const bool here = std::any_of(capture->streams.begin(), capture->streams.end(),
                                  [&](const auto& stream) { return stream->context == &context; });
    if (!here) continue;
    invalidate(capture.get());
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result == CUDA_SUCCESS ? check_unsafe_here() : result;
}

CUresult refuse_in_capture(Stream& stream) {
  if (stream.capture == nullptr) return use_legacy(stream);
  Capture* capture = stream.capture->sequence.get();
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  invalidate(capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_node(Stream& stream, NodeWork&& work) {
  StreamCapture& mine = *stream.capture;
  if (mine.sequence->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*> after;
  for (const CUgraphNode handle : mine.after) after.push_back(GraphNode::find(handle));
  mine.after = {handle_of(mine.sequence->graph->add(std::move(work), after))};
  return CUDA_SUCCESS;
}

bool capture_record(Stream& stream, Event* event, CUevent handle, bool external, CUresult* result) {
  if (stream.capture == nullptr) {
    // The flag means an event record node, "invalid when used outside of capture".
    *result = external ? CUDA_ERROR_INVALID_VALUE : use_legacy(stream);
    return *result != CUDA_SUCCESS;
  }
  if (external) {
    *result = capture_node(stream, EventRecordWork{handle});
    return true;
  }
  if (stream.capture->sequence->invalidated) {
    *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return true;
  }
  event->record.reset();
  event->captured =
      std::make_unique<CapturedEvent>(CapturedEvent{stream.capture->sequence, stream.capture->after});
  *result = CUDA_SUCCESS;
  return true;
}

bool capture_wait(const std::shared_ptr<Stream>& stream, Event* event, CUevent handle, bool external,
                  CUresult* result) {
  if (external) {
    *result =
        stream->capture == nullptr ? CUDA_ERROR_INVALID_VALUE : capture_node(*stream, EventWaitWork{handle});
    return true;
  }
  if (event->captured != nullptr) {
    *result = wait_captured(stream, *event->captured);
    return true;
  }
  if (stream->capture == nullptr) {
    *result = use_legacy(*stream);
    return *result != CUDA_SUCCESS;
  }
  // Also of an event that was never recorded: only events of the sequence may be waited for.
  Capture* capture = stream->capture->sequence.get();
  *result =
      capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  invalidate(capture);
  return true;
}

}  // namespace simgpu
