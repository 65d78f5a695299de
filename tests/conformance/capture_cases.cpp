// Stream capture: what becomes of captured work, and what may not be done meanwhile.

#include <thread>

#include "tests/conformance/graphs.h"

#define STREAM "CUDA Driver API, Stream Management: "
#define GUIDE "CUDA C++ Programming Guide, Creating a Graph Using Stream Capture"

namespace conformance {
namespace {

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto kThread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUstream begin(CUstreamCaptureMode mode = kGlobal, unsigned flags = CU_STREAM_NON_BLOCKING) {
  const CUstream stream = make_stream(flags);
  OK(CU(cuStreamBeginCapture)(stream, mode));
  return stream;
}

CUgraph end(CUstream stream) {
  CUgraph graph = nullptr;
  OK(CU(cuStreamEndCapture)(stream, &graph));
  EXPECT(graph != nullptr);
  return graph;
}

/// The capture was broken: its end says so, gives no graph, and the stream can be used again.
void expect_broken(CUstream stream) {
  CUgraph graph = reinterpret_cast<CUgraph>(std::intptr_t{1});
  REFUSES(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT(graph == nullptr);
  OK(CU(cuStreamSynchronize)(stream));
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status{};
  OK(CU(cuStreamIsCapturing)(stream, &status));
  return status;
}

CUresult try_plain_allocation() {
  CUdeviceptr memory = 0;
  return CU(cuMemAlloc)(&memory, kMiB);
}

}  // namespace

CASE("capture.work_is_not_run_but_recorded", STREAM "cuStreamBeginCapture") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  fill(memory, 64, 1);
  OK(CU(cuCtxSynchronize)());
  const CUgraph graph = capture([&](CUstream stream) {
    affine(memory, 64, 1, 10, stream);
    affine(memory, 64, 1, 100, stream);
  });
  EXPECT_WORDS(memory, 64, 1);
  EXPECT_EQ(nodes_of(graph).size(), 2u);
  EXPECT_EQ(edges_of(graph), 1u);
  const CUgraphExec exec = instantiate(graph);
  run_graph(exec);
  run_graph(exec);
  EXPECT_WORDS(memory, 64, 221);
}

CASE("capture.status_is_told", STREAM "cuStreamIsCapturing") {
  use_device();
  const CUstream stream = make_stream();
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  OK(CU(cuStreamBeginCapture)(stream, kGlobal));
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  end(stream);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

CASE("capture.every_sequence_has_its_id", STREAM "cuStreamGetCaptureInfo") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  cuuint64_t ids[2] = {0, 0};
  for (cuuint64_t& id : ids) {
    const CUstream stream = begin();
    affine(memory, 64, 1, 1, stream);
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    const CUgraphNode* after = nullptr;
    std::size_t count = 0;
    OK(CU(cuStreamGetCaptureInfo)(stream, &status, &id, &graph, &after, nullptr, &count));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(count == 1 && after != nullptr && type_of(after[0]) == CU_GRAPH_NODE_TYPE_KERNEL);
    EXPECT(graph == end(stream));
  }
  EXPECT(ids[0] != ids[1]);
}

CASE("capture.the_legacy_stream_is_not_captured", STREAM "cuStreamBeginCapture") {
  use_device();
  REFUSES(CU(cuStreamBeginCapture)(nullptr, kGlobal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  REFUSES(CU(cuStreamBeginCapture)(CU_STREAM_LEGACY, kGlobal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CASE("capture.it_is_begun_once", STREAM "cuStreamBeginCapture") {
  use_device();
  const CUstream stream = begin();
  FAILS(CU(cuStreamBeginCapture)(stream, kGlobal));
}

CASE("capture.what_was_not_begun_is_not_ended", STREAM "cuStreamEndCapture") {
  use_device();
  CUgraph graph = nullptr;
  FAILS(CU(cuStreamEndCapture)(make_stream(), &graph));
}

CASE_ORDER("capture.events_fork_and_join_streams", GUIDE ", Cross-stream Dependencies and Events") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUgraph graph = capture([&](CUstream stream) {
    const CUstream side = make_stream(CU_STREAM_NON_BLOCKING);
    const CUevent fork = make_event();
    const CUevent join = make_event();
    fill(memory, 64, 1, stream);
    OK(CU(cuEventRecord)(fork, stream));
    OK(CU(cuStreamWaitEvent)(side, fork, 0));
    EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    copy_words(memory, memory + 1024, 64, side);
    copy_words(memory, memory + 2048, 64, stream);
    OK(CU(cuEventRecord)(join, side));
    OK(CU(cuStreamWaitEvent)(stream, join, 0));
    affine(memory + 1024, 64, 1, 7, stream);
  });
  EXPECT_EQ(nodes_of(graph).size(), 4u);
  EXPECT_EQ(edges_of(graph), 4u);
  run_graph(instantiate(graph));
  EXPECT_WORDS(memory + 1024, 64, 8);
  EXPECT_WORDS(memory + 2048, 64, 1);
}

CASE("capture.unjoined_work_is_an_error", GUIDE ", Invalidation; cuStreamEndCapture") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream stream = begin();
  const CUstream side = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent fork = make_event();
  fill(memory, 64, 1, stream);
  OK(CU(cuEventRecord)(fork, stream));
  OK(CU(cuStreamWaitEvent)(side, fork, 0));
  affine(memory, 64, 1, 1, side);
  CUgraph graph = nullptr;
  REFUSES(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT(graph == nullptr);
}

CASE("capture.it_ends_where_it_began", GUIDE ", Cross-stream Dependencies and Events; cuStreamEndCapture") {
  use_device();
  const CUstream stream = begin();
  const CUstream side = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent fork = make_event();
  OK(CU(cuEventRecord)(fork, stream));
  OK(CU(cuStreamWaitEvent)(side, fork, 0));
  CUgraph graph = nullptr;
  REFUSES(CU(cuStreamEndCapture)(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

CASE("capture.waiting_for_the_stream_breaks_it", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUstream stream = begin();
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  expect_broken(stream);
}

CASE("capture.asking_the_stream_breaks_it", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUstream stream = begin();
  REFUSES(CU(cuStreamQuery)(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_broken(stream);
}

CASE("capture.waiting_for_the_context_breaks_it", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUstream stream = begin();
  FAILS(CU(cuCtxSynchronize)());
  expect_broken(stream);
}

CASE("capture.captured_events_are_not_waited_for", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUstream stream = begin();
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, stream));
  REFUSES(CU(cuEventSynchronize)(event), CUDA_ERROR_CAPTURED_EVENT);
  expect_broken(stream);
}

CASE("capture.captured_events_are_not_asked",
     GUIDE ", Prohibited; cuThreadExchangeStreamCaptureMode, relaxed") {
  use_device();
  const CUstream stream = begin(kRelaxed);
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, stream));
  REFUSES(CU(cuEventQuery)(event), CUDA_ERROR_CAPTURED_EVENT);
}

CASE("capture.the_legacy_stream_cannot_be_used_beside_a_blocking_one",
     GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream stream = begin(kRelaxed, CU_STREAM_DEFAULT);
  REFUSES(CU(cuMemsetD8Async)(memory, 1, 16, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect_broken(stream);
}

CASE("capture.asking_the_legacy_stream_says_implicit", STREAM "cuStreamIsCapturing") {
  use_device();
  const CUstream stream = begin(kGlobal, CU_STREAM_DEFAULT);
  CUstreamCaptureStatus status{};
  REFUSES(CU(cuStreamIsCapturing)(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  end(stream);
}

CASE("capture.the_legacy_stream_works_beside_a_non_blocking_one",
     GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream stream = begin(kRelaxed);
  fill(memory, 64, 3, nullptr);
  OK(CU(cuStreamSynchronize)(nullptr));
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  end(stream);
}

CASE("capture.two_sequences_are_not_merged", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream one = begin();
  const CUstream two = begin();
  const CUevent event = make_event();
  affine(memory, 64, 1, 1, one);
  OK(CU(cuEventRecord)(event, one));
  REFUSES(CU(cuStreamWaitEvent)(two, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
}

CASE("capture.it_does_not_wait_for_work_outside", GUIDE ", Prohibited and Unhandled Operations") {
  use_device();
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, make_stream(CU_STREAM_NON_BLOCKING)));
  const CUstream stream = begin();
  REFUSES(CU(cuStreamWaitEvent)(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_broken(stream);
}

CASE("capture.global_mode_forbids_unsafe_calls_everywhere", STREAM "cuThreadExchangeStreamCaptureMode") {
  use_device();
  CUcontext context = nullptr;
  OK(CU(cuCtxGetCurrent)(&context));
  const CUstream stream = begin(kGlobal);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    REFUSES(try_plain_allocation(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  expect_broken(stream);
}

CASE("capture.thread_mode_forbids_unsafe_calls_here", STREAM "cuThreadExchangeStreamCaptureMode") {
  use_device();
  CUcontext context = nullptr;
  OK(CU(cuCtxGetCurrent)(&context));
  const CUstream stream = begin(kThread);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    OK(try_plain_allocation());
  }).join();
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REFUSES(try_plain_allocation(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_broken(stream);
}

CASE("capture.relaxed_mode_forbids_nothing", STREAM "cuThreadExchangeStreamCaptureMode") {
  use_device();
  const CUstream stream = begin(kRelaxed);
  OK(try_plain_allocation());
  end(stream);
}

CASE("capture.a_relaxed_thread_may_do_what_a_global_capture_forbids",
     STREAM "cuThreadExchangeStreamCaptureMode") {
  use_device();
  const CUstream stream = begin(kGlobal);
  CUstreamCaptureMode mode = kRelaxed;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  EXPECT_EQ(mode, kGlobal);
  OK(try_plain_allocation());
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  EXPECT_EQ(mode, kRelaxed);
  end(stream);
}

CASE("capture.the_mode_belongs_to_the_thread", STREAM "cuThreadExchangeStreamCaptureMode") {
  use_device();
  CUstreamCaptureMode mode = kThread;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  EXPECT_EQ(mode, kGlobal);
  std::thread([] {
    CUstreamCaptureMode mine = kRelaxed;
    OK(CU(cuThreadExchangeStreamCaptureMode)(&mine));
    EXPECT_EQ(mine, kGlobal);
  }).join();
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  EXPECT_EQ(mode, kThread);
}

CASE("capture.another_thread_ends_relaxed_ones_only", STREAM "cuStreamEndCapture") {
  use_device();
  CUcontext context = nullptr;
  OK(CU(cuCtxGetCurrent)(&context));
  const CUstream local = begin(kThread);
  const CUstream relaxed = begin(kRelaxed);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    CUgraph graph = nullptr;
    REFUSES(CU(cuStreamEndCapture)(local, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(CU(cuStreamEndCapture)(relaxed, &graph));
    EXPECT(graph != nullptr);
  }).join();
}

CASE("capture.copies_memsets_and_host_functions_become_nodes", GUIDE) {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  unsigned* host = pinned_words(16);
  const CUgraph graph = capture([&](CUstream stream) {
    OK(CU(cuMemsetD32Async)(memory, 5, 16, stream));
    OK(CU(cuMemcpyDtoHAsync)(host, memory, 64, stream));
    OK(CU(cuLaunchHostFunc)(
        stream, [](void* word) { *static_cast<unsigned*>(word) += 1; }, host));
  });
  const std::vector<CUgraphNode> nodes = nodes_of(graph);
  EXPECT_EQ(nodes.size(), 3u);
  unsigned kinds = 0;
  for (const CUgraphNode node : nodes) kinds |= 1u << static_cast<unsigned>(type_of(node));
  EXPECT_EQ(kinds, 1u << CU_GRAPH_NODE_TYPE_MEMSET | 1u << CU_GRAPH_NODE_TYPE_MEMCPY |
                       1u << CU_GRAPH_NODE_TYPE_HOST);
  run_graph(instantiate(graph));
  EXPECT_EQ(host[0], 6u);
  EXPECT_EQ(host[15], 5u);
}

CASE("capture.stream_ordered_memory_becomes_nodes",
     "CUDA C++ Programming Guide, Graph Memory Nodes, Stream Capture") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  const CUdeviceptr out = allocate(4 * kKiB);
  const CUgraph graph = capture([&](CUstream stream) {
    CUdeviceptr memory = 0;
    OK(CU(cuMemAllocAsync)(&memory, kMiB, stream));
    fill(memory, 1024, 12, stream);
    copy_words(memory, out, 1024, stream);
    OK(CU(cuMemFreeAsync)(memory, stream));
  });
  EXPECT_EQ(nodes_of(graph).size(), 4u);
  run_graph(instantiate(graph));
  EXPECT_WORDS(out, 1024, 12);
}

CASE("capture.the_runtime_captures_too", "CUDA Runtime API, Stream Management: cudaStreamBeginCapture") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  OK(RT(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeGlobal));
  OK(RT(cudaMemsetAsync)(reinterpret_cast<void*>(memory), 1, 64, stream));
  OK(RT(cudaStreamEndCapture)(stream, &graph));
  OK(RT(cudaGraphInstantiate)(&exec, graph, 0));
  OK(RT(cudaGraphLaunch)(exec, stream));
  OK(RT(cudaStreamSynchronize)(stream));
  EXPECT_EQ(read_word(memory), 0x01010101u);
  OK(RT(cudaGraphExecDestroy)(exec));
  OK(RT(cudaGraphDestroy)(graph));
}

}  // namespace conformance
