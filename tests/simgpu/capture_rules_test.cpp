// What breaks a capture, and which calls the three modes forbid. Documentation: CUDA Driver API, page "Stream
// Management", and CUDA C++ Programming Guide, "Prohibited and Unhandled Operations" and "Invalidation".

#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto kThread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUstream begin(CUstreamCaptureMode mode, unsigned flags = CU_STREAM_NON_BLOCKING) {
  const CUstream stream = new_stream(flags);
  OK(cuStreamBeginCapture(stream, mode));
  return stream;
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status{};
  OK(cuStreamIsCapturing(stream, &status));
  return status;
}

void expect_end(CUstream stream, CUresult want) {
  CUgraph graph = reinterpret_cast<CUgraph>(0x1234);
  EXPECT_RESULT(cuStreamEndCapture(stream, &graph), want);
  EXPECT((graph != nullptr) == (want == CUDA_SUCCESS));
}

CUevent new_event() {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, 0));
  return event;
}

void in_thread(const std::function<void()>& body) {
  const CUcontext current = context();
  std::thread([&] {
    OK(cuCtxSetCurrent(current));
    body();
  }).join();
}

void set_mode(CUstreamCaptureMode mode) {
  OK(cuThreadExchangeStreamCaptureMode(&mode));
}

CUresult allocate() {
  CUdeviceptr memory = 0;
  return cuMemAlloc(&memory, 4);
}

}  // namespace

TEST_CASE("capture: after a mistake every use of the sequence fails until its end") {
  on_device({}, [] {
    const CUstream stream = begin(kRelaxed);
    const CUstream side = new_stream();
    const CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    EXPECT_RESULT(cuStreamQuery(side), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(status_of(side) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_RESULT(cuLaunchHostFunc(stream, &note, nullptr), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RESULT(cuEventRecord(event, side), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RESULT(cuStreamWaitEvent(new_stream(), event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RESULT(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 0),
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(status_of(side) == CU_STREAM_CAPTURE_STATUS_NONE);
    run(side, 1);
    OK(cuStreamSynchronize(side));
    EXPECT(g_order.size() == 1);
    return 0;
  });
}

TEST_CASE("capture: what cannot begin or end") {
  on_device({}, [] {
    EXPECT_RESULT(cuStreamBeginCapture(nullptr, kGlobal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const CUstream stream = new_stream();
    EXPECT_RESULT(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(3)),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuStreamEndCapture(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
    expect_end(stream, CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(stream, kGlobal));
    EXPECT_RESULT(cuStreamBeginCapture(stream, kGlobal), CUDA_ERROR_ILLEGAL_STATE);
    expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, kGlobal));
    expect_end(CU_STREAM_PER_THREAD, CUDA_SUCCESS);
    return 0;
  });
}

TEST_CASE("capture: it ends in the stream where it began, in its thread unless it is relaxed") {
  on_device({}, [] {
    const CUstream stream = begin(kRelaxed);
    const CUstream side = new_stream();
    const CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    expect_end(side, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    const CUstream global = begin(kGlobal);
    in_thread([&] { expect_end(global, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD); });
    expect_end(global, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    const CUstream relaxed = begin(kRelaxed);
    run(relaxed, 1);
    in_thread([&] {
      run(relaxed, 2);
      expect_end(relaxed, CUDA_SUCCESS);
    });
    return 0;
  });
}

TEST_CASE("capture: a fork whose work is not joined is an error, and the streams are free again") {
  on_device({}, [] {
    const CUstream stream = begin(kGlobal);
    const CUstream side = new_stream();
    const CUevent event = new_event();
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    run(side, 1);
    run(stream, 2);
    expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    run(side, 3);
    OK(cuCtxSynchronize());
    EXPECT(g_order == std::vector<int>{3});
    return 0;
  });
}

TEST_CASE("capture: two sequences do not merge, and both are broken by the attempt") {
  on_device({}, [] {
    const CUstream one = begin(kRelaxed);
    const CUstream two = begin(kRelaxed);
    const CUevent event = new_event();
    OK(cuEventRecord(event, one));
    EXPECT_RESULT(cuStreamWaitEvent(two, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_end(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_end(two, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return 0;
  });
}

TEST_CASE("capture: it waits for nothing outside, recorded or not, and nothing outside asks about it") {
  on_device({}, [] {
    for (const bool recorded : {false, true}) {
      const CUevent event = new_event();
      if (recorded) OK(cuEventRecord(event, new_stream()));
      const CUstream stream = begin(kRelaxed);
      EXPECT_RESULT(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
      expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    float ms = 0;
    using Question = std::function<CUresult(CUevent)>;
    for (const Question& ask : {Question(&cuEventQuery), Question(&cuEventSynchronize),
                                Question([&](CUevent e) { return cuEventElapsedTime(&ms, e, e); })}) {
      const CUstream stream = begin(kRelaxed);
      const CUevent event = new_event();
      OK(cuEventRecord(event, stream));
      EXPECT_RESULT(ask(event), CUDA_ERROR_CAPTURED_EVENT);
      expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    return 0;
  });
}

TEST_CASE(
    "capture: nobody waits for a stream or a context that captures, and no callback is added, in any mode") {
  on_device({}, [] {
    using Call = std::function<CUresult(CUstream)>;
    for (const Call& call :
         {Call(&cuStreamSynchronize), Call(&cuStreamQuery), Call(&cuStreamDestroy), Call([](CUstream s) {
            const CUstreamCallback nothing = [](CUstream, CUresult, void*) {};
            return cuStreamAddCallback(s, nothing, nullptr, 0);
          }),
          Call([](CUstream) { return cuCtxSynchronize(); })}) {
      const CUstream stream = begin(kRelaxed);
      set_mode(kRelaxed);
      EXPECT_RESULT(call(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      set_mode(kGlobal);
      expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    return 0;
  });
}

TEST_CASE("capture: the legacy stream is out of use while a blocking stream of its context captures") {
  on_device({}, [] {
    const CUdeviceptr memory = new_ints(1);
    const CUevent event = new_event();
    int host = 0;
    using Call = std::function<CUresult()>;
    const std::vector<Call> calls = {
        [&] { return cuMemsetD32Async(memory, 1, 1, nullptr); },
        [&] { return cuMemcpyDtoHAsync(&host, memory, 4, nullptr); },
        [&] { return cuLaunchHostFunc(nullptr, &note, nullptr); },
        [&] { return cuEventRecord(event, nullptr); },
        [&] { return cuStreamWaitEvent(nullptr, event, 0); },
        [&] { return cuStreamSynchronize(nullptr); },
        [&] { return cuStreamQuery(CU_STREAM_LEGACY); },
        [&] { return cuMemcpyDtoH(&host, memory, 4); },
        [&] { return cuMemsetD32(memory, 1, 1); },
    };
    for (const Call& call : calls) {
      const CUstream stream = begin(kRelaxed, CU_STREAM_DEFAULT);
      EXPECT_RESULT(call(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      expect_end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      OK(call());
    }
    const CUstream stream = begin(kRelaxed, CU_STREAM_DEFAULT);
    CUstreamCaptureStatus status{};
    cuuint64_t id = 0;
    EXPECT_RESULT(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_RESULT(cuStreamGetCaptureInfo(nullptr, &status, &id, nullptr, nullptr, nullptr, nullptr),
                  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    run(new_stream(CU_STREAM_DEFAULT), 1);  // another blocking stream is no trouble
    expect_end(stream, CUDA_SUCCESS);
    // Beside a non-blocking stream the legacy stream works, and cannot join.
    const CUstream free = begin(kRelaxed);
    OK(calls[0]());
    OK(cuStreamSynchronize(nullptr));
    OK(cuEventRecord(event, free));
    EXPECT_RESULT(cuStreamWaitEvent(nullptr, event, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end(free, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return 0;
  });
}

TEST_CASE("capture: modes of the sequence and of the calling thread decide about unsafe calls") {
  struct Row {
    CUstreamCaptureMode sequence, thread;
    bool same_thread, allowed;
  };
  const Row row = GENERATE(Row{kGlobal, kGlobal, true, false}, Row{kGlobal, kThread, true, false},
                           Row{kGlobal, kRelaxed, true, true}, Row{kThread, kGlobal, true, false},
                           Row{kThread, kThread, true, false}, Row{kThread, kRelaxed, true, true},
                           Row{kRelaxed, kGlobal, true, true}, Row{kRelaxed, kThread, true, true},
                           Row{kRelaxed, kRelaxed, true, true}, Row{kGlobal, kGlobal, false, false},
                           Row{kGlobal, kThread, false, true}, Row{kGlobal, kRelaxed, false, true},
                           Row{kThread, kGlobal, false, true}, Row{kThread, kThread, false, true},
                           Row{kRelaxed, kGlobal, false, true}, Row{kRelaxed, kThread, false, true});
  on_device({}, [&] {
    const CUevent event = new_event();
    const CUstream other = new_stream();
    OK(cuEventRecord(event, other));
    CUdeviceptr memory = new_ints(1);
    void* pinned = nullptr;
    using Call = std::function<CUresult()>;
    const std::vector<Call> calls = {
        &allocate,
        [&] { return cuMemHostAlloc(&pinned, 64, 0); },
        [&] { return cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cuEventQuery(event); },
        [&] { return cuEventSynchronize(event); },
        [&] { return cuStreamSynchronize(other); },
        [&] { return cuMemsetD32(memory, 1, 1); },
        [&] { return cuMemFree(memory); },
    };
    for (const Call& call : calls) {
      const CUstream stream = begin(row.sequence);
      const auto try_it = [&] {
        set_mode(row.thread);
        const CUresult got = call();
        set_mode(kGlobal);
        EXPECT(got == (row.allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
      };
      if (row.same_thread) {
        try_it();
      } else {
        in_thread(try_it);
      }
      expect_end(stream, row.allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    return 0;
  });
}

TEST_CASE("capture: calls that nothing forbids go on beside a global capture") {
  on_device({}, [] {
    const CUstream other = new_stream();
    const CUstream stream = begin(kGlobal);
    run(other, 1);
    const CUevent event = new_event();
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(new_stream(), event, 0));
    OK(cuEventDestroy(event));
    std::size_t free = 0;
    std::size_t total = 0;
    OK(cuMemGetInfo(&free, &total));
    CUdeviceptr range = 0;
    OK(cuMemAddressReserve(&range, kFrame, 0, 0, 0));
    OK(cuMemAddressFree(range, kFrame));
    in_thread([&] { run(other, 2); });
    expect_end(stream, CUDA_SUCCESS);
    OK(cuCtxSynchronize());
    EXPECT(g_order == std::vector<int>({1, 2}));
    return 0;
  });
}

TEST_CASE("capture: several threads capture at once in their own modes") {
  on_device({}, [] {
    constexpr int kThreads = 4;
    std::vector<std::thread> threads;
    const CUcontext current = context();
    std::vector<CUgraph> graphs(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        OK(cuCtxSetCurrent(current));
        for (int round = 0; round < 20; ++round) {
          const CUstream stream = begin(kThread);
          for (int i = 0; i < 10; ++i) run(stream, t);
          CUgraph graph = nullptr;
          OK(cuStreamEndCapture(stream, &graph));
          EXPECT(nodes_of(graph).size() == 10);
          if (graphs[static_cast<std::size_t>(t)] != nullptr) {
            OK(cuGraphDestroy(graphs[static_cast<std::size_t>(t)]));
          }
          graphs[static_cast<std::size_t>(t)] = graph;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const CUgraph graph : graphs) OK(cuGraphLaunch(instantiate(graph), nullptr));
    OK(cuCtxSynchronize());
    EXPECT(g_order.size() == 10 * kThreads);
    return 0;
  });
}

TEST_CASE("capture: a context that ends takes its captures with it") {
  on_device({}, [] {
    CUcontext second = nullptr;
    OK(cuCtxCreate(&second, nullptr, 0, 0));
    begin(kGlobal);
    OK(cuCtxDestroy(second));
    OK(allocate());
    return 0;
  });
}
