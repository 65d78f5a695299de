// Streams, events and the order of work. Documentation: CUDA Driver API, pages "Stream Management", "Event
// Management" and "Stream synchronization behavior".

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

/// Host functions append their number here: the order in which work ran.
std::vector<int> g_order;

void note(void* number) {
  g_order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(number)));
}

void run(CUstream stream, int number) {
  OK(cuLaunchHostFunc(stream, &note, reinterpret_cast<void*>(static_cast<std::intptr_t>(number))));
}

CUstream new_stream(unsigned flags) {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

std::size_t position(int number) {
  for (std::size_t i = 0; i < g_order.size(); ++i) {
    if (g_order[i] == number) return i;
  }
  expectation_failed(__FILE__, __LINE__, "number " + std::to_string(number) + " ran");
}

bool before(int first, int second) {
  return position(first) < position(second);
}

constexpr std::uint64_t kSeeds = 200;

}  // namespace

TEST_CASE("stream: the legacy stream is ordered with blocking streams, both ways") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUstream a = new_stream(CU_STREAM_DEFAULT);
    const CUstream b = new_stream(CU_STREAM_DEFAULT);
    for (int round = 0; round < 100; round += 10) {
      run(a, round);
      run(b, round + 1);
      run(nullptr, round + 2);
      run(a, round + 3);
      run(b, round + 4);
      run(CU_STREAM_LEGACY, round + 5);
    }
    OK(cuCtxSynchronize());
    bool good = g_order.size() == 60;
    for (int round = 0; round < 100; round += 10) {
      good = good && before(round, round + 2) && before(round + 1, round + 2);
      good = good && before(round + 2, round + 3) && before(round + 2, round + 4);
      good = good && before(round + 3, round + 5) && before(round + 4, round + 5);
    }
    return good ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("stream: waiting for the legacy stream waits for blocking streams too") {
  const int violations = count_over_seeds(40, [] {
    run(new_stream(CU_STREAM_DEFAULT), 1);
    OK(cuStreamSynchronize(nullptr));
    return g_order.size() == 1 ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("stream: a synchronous copy from pageable memory waits for the stream before it reads") {
  const int violations = count_over_seeds(40, [] {
    CUdeviceptr device = 0;
    OK(cuMemAlloc(&device, 4));
    run(nullptr, 1);
    int source = 1;
    OK(cuMemcpyHtoD(device, &source, sizeof source));
    return g_order.size() == 1 ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("stream: non-blocking streams are not ordered with the legacy stream") {
  const int swapped = count_over_seeds(kSeeds, [] {
    const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    run(stream, 1);
    run(nullptr, 2);
    OK(cuCtxSynchronize());
    return before(1, 2) ? 0 : 1;
  });
  REQUIRE(swapped > 0);
  REQUIRE(swapped < static_cast<int>(kSeeds));
}

TEST_CASE("stream: blocking streams are not ordered with each other") {
  const int swapped = count_over_seeds(kSeeds, [] {
    run(new_stream(CU_STREAM_DEFAULT), 1);
    run(new_stream(CU_STREAM_DEFAULT), 2);
    OK(cuCtxSynchronize());
    return before(1, 2) ? 0 : 1;
  });
  REQUIRE(swapped > 0);
  REQUIRE(swapped < static_cast<int>(kSeeds));
}

TEST_CASE("stream: the per-thread stream is ordered with the legacy stream but is another one") {
  const int violations = count_over_seeds(40, [] {
    run(CU_STREAM_PER_THREAD, 1);
    run(nullptr, 2);
    run(CU_STREAM_PER_THREAD, 3);
    OK(cuCtxSynchronize());
    unsigned long long legacy = 0;
    unsigned long long mine = 0;
    OK(cuStreamGetId(nullptr, &legacy));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    EXPECT(legacy != mine);
    return before(1, 2) && before(2, 3) ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("stream: the per-thread twin takes a null stream for the thread's own") {
  on_device({}, [] {
    using GetId = CUresult (*)(CUstream, unsigned long long*);
    void* found = nullptr;
    OK(cuGetProcAddress("cuStreamGetId", &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                        nullptr));
    unsigned long long by_twin = 0;
    unsigned long long by_name = 0;
    OK(reinterpret_cast<GetId>(found)(nullptr, &by_twin));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &by_name));
    EXPECT(by_twin == by_name);
    return 0;
  });
}

TEST_CASE("stream: a wait for an event orders two streams, for the record that was latest at the call") {
  const int violations = count_over_seeds(kSeeds, [] {
    const CUstream a = new_stream(CU_STREAM_NON_BLOCKING);
    const CUstream b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    run(a, 1);
    OK(cuEventRecord(event, a));
    run(a, 2);
    OK(cuStreamWaitEvent(b, event, 0));
    run(b, 3);
    OK(cuEventRecord(event, b));
    OK(cuStreamWaitEvent(a, event, 0));
    run(a, 4);
    OK(cuCtxSynchronize());
    return before(1, 3) && before(3, 4) && before(2, 4) ? 0 : 1;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("stream: without the wait the same two streams run in either order") {
  const int swapped = count_over_seeds(kSeeds, [] {
    run(new_stream(CU_STREAM_NON_BLOCKING), 1);
    run(new_stream(CU_STREAM_NON_BLOCKING), 2);
    OK(cuCtxSynchronize());
    return before(1, 2) ? 0 : 1;
  });
  REQUIRE(swapped > 0);
}

TEST_CASE("stream: an event that was never recorded is complete and holds nobody up") {
  on_device({}, [] {
    CUevent event = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(cuEventQuery(event));
    OK(cuEventSynchronize(event));
    OK(cuStreamWaitEvent(nullptr, event, 0));
    OK(cuCtxSynchronize());
    return 0;
  });
}

TEST_CASE("stream: loops that ask for an event or a stream end") {
  const int unfinished = count_over_seeds(40, [] {
    const CUstream a = new_stream(CU_STREAM_NON_BLOCKING);
    const CUstream b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = nullptr;
    OK(cuEventCreate(&event, 0));
    for (int i = 0; i < 50; ++i) run(b, i);
    OK(cuEventRecord(event, b));
    OK(cuStreamWaitEvent(a, event, 0));
    run(a, 50);
    int rounds = 0;
    while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY) EXPECT(++rounds < 100'000);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) EXPECT(++rounds < 100'000);
    return g_order.size() == 51 ? 0 : 1;
  });
  REQUIRE(unfinished == 0);
}

TEST_CASE("stream: a queue gets long and never longer than 1,024 operations") {
  const int with_full_queue = count_over_seeds(40, [] {
    const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    int longest = 0;
    for (int i = 0; i < 5000; ++i) {
      run(stream, i);
      longest = std::max(longest, i + 1 - static_cast<int>(g_order.size()));
    }
    EXPECT(longest <= 1024);
    OK(cuStreamSynchronize(stream));
    EXPECT(g_order.size() == 5000);
    for (int i = 0; i < 5000; ++i) EXPECT(g_order[static_cast<std::size_t>(i)] == i);
    return longest == 1024 ? 1 : 0;
  });
  REQUIRE(with_full_queue > 0);
}

TEST_CASE("stream: work of a destroyed stream still runs") {
  const int lost = count_over_seeds(20, [] {
    const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    run(stream, 1);
    OK(cuStreamDestroy(stream));
    EXPECT_RESULT(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
    return g_order.size() == 1 ? 0 : 1;
  });
  REQUIRE(lost == 0);
}

TEST_CASE("stream: in order means at once") {
  DeviceSetup setup;
  setup.in_order = true;
  on_device(setup, [] {
    run(new_stream(CU_STREAM_NON_BLOCKING), 1);
    EXPECT(g_order.size() == 1);
    return 0;
  });
}

TEST_CASE("stream: one seed gives one order") {
  const auto order_of = [](std::uint64_t seed) {
    DeviceSetup setup;
    setup.seed = seed;
    return on_device(setup, [] {
      std::vector<CUstream> streams;
      streams.reserve(6);
      for (int i = 0; i < 6; ++i) streams.push_back(new_stream(CU_STREAM_NON_BLOCKING));
      for (int i = 0; i < 300; ++i) run(streams[static_cast<std::size_t>(i) % streams.size()], i);
      OK(cuCtxSynchronize());
      unsigned hash = 7;
      for (const int number : g_order) hash = hash * 31 + static_cast<unsigned>(number);
      return static_cast<int>(hash % 61);
    });
  };
  bool differs = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    REQUIRE(order_of(seed) == order_of(seed));
    differs = differs || order_of(seed) != order_of(seed + 1);
  }
  REQUIRE(differs);
}

TEST_CASE("stream: CUDA calls in a host function are refused") {
  on_device({}, [] {
    static CUresult inside = CUDA_SUCCESS;
    OK(cuLaunchHostFunc(
        nullptr, [](void*) { inside = cuCtxSynchronize(); }, nullptr));
    OK(cuCtxSynchronize());
    EXPECT(inside == CUDA_ERROR_NOT_PERMITTED);
    return 0;
  });
}

TEST_CASE("stream: arguments are checked") {
  on_device({}, [] {
    CUstream stream = nullptr;
    CUevent event = nullptr;
    EXPECT_RESULT(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuEventCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuEventCreate(&event, 64), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventCreate(&event, 0));
    EXPECT_RESULT(cuEventRecord(event, reinterpret_cast<CUstream>(0x1234)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuEventRecord(nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuLaunchHostFunc(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventDestroy(event));
    EXPECT_RESULT(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    OK(cuStreamIsCapturing(nullptr, &capturing));
    EXPECT(capturing == CU_STREAM_CAPTURE_STATUS_NONE);
    int priority = 1;
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
    OK(cuStreamGetPriority(stream, &priority));
    EXPECT(priority == -5);
    return 0;
  });
}

TEST_CASE("event: elapsed time grows with the work between two events and not with the seed") {
  const auto elapsed = [](std::uint64_t seed) {
    DeviceSetup setup;
    setup.seed = seed;
    return on_device(setup, [] {
      CUdeviceptr memory = 0;
      OK(cuMemAlloc(&memory, 32 * kMiB));
      CUevent start = nullptr;
      CUevent end = nullptr;
      OK(cuEventCreate(&start, 0));
      OK(cuEventCreate(&end, 0));
      float ms = 0;
      EXPECT_RESULT(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
      OK(cuEventRecord(start, nullptr));
      for (int i = 0; i < 100; ++i) OK(cuMemsetD8Async(memory, 0, 32 * kMiB, nullptr));
      OK(cuEventRecord(end, nullptr));
      OK(cuEventSynchronize(end));
      OK(cuEventElapsedTime(&ms, start, end));
      EXPECT(ms > 0.5f && ms < 10.0f);
      return static_cast<int>(ms * 10.0f);
    });
  };
  REQUIRE(elapsed(1) == elapsed(2));
}

TEST_CASE("context: its events and modules end with it") {
  on_device({}, [] {
    CUcontext primary = nullptr;
    CUcontext context = nullptr;
    CUevent event = nullptr;
    CUmodule module = nullptr;
    OK(cuCtxGetCurrent(&primary));
    OK(cuCtxCreate(&context, nullptr, 0, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuModuleLoadData(&module, "simgpu"));
    OK(cuCtxDestroy(context));
    OK(cuCtxSetCurrent(primary));
    unsigned count = 0;
    EXPECT_RESULT(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuModuleGetFunctionCount(&count, module), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_RESULT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    return 0;
  });
}
