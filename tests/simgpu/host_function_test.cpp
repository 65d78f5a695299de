// Host functions. Documentation: CUDA Driver API, cuLaunchHostFunc ("The host function must not make any CUDA
// API calls"; it does not say which thread runs it, and a thread of the program is not it).

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;

void wait_for(void* flag) {
  while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
}

void queue_wait(CUstream stream, std::atomic<bool>* flag) {
  OK(cuLaunchHostFunc(stream, &wait_for, flag));
}

}  // namespace

TEST_CASE("host function: it may wait for the thread that queued it") {
  count_over_seeds(8, [] {
    std::atomic<bool> go{false};
    const CUstream stream = new_stream();
    queue_wait(stream, &go);
    for (int i = 0; i < 50; ++i) EXPECT_RESULT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    go = true;
    OK(cuStreamSynchronize(stream));
    return 0;
  });
}

TEST_CASE("host function: it may take a lock that its thread holds during a call") {
  count_over_seeds(8, [] {
    std::mutex mutex;
    const CUstream stream = new_stream();
    OK(cuLaunchHostFunc(
        stream, [](void* m) { const std::scoped_lock lock(*static_cast<std::mutex*>(m)); }, &mutex));
    {
      const std::scoped_lock lock(mutex);
      CUdeviceptr base = 0;
      for (int i = 0; i < 20; ++i) OK(cuMemAlloc(&base, kMiB));
    }
    OK(cuStreamSynchronize(stream));
    return 0;
  });
}

TEST_CASE("host function: a query does not wait for one that runs") {
  on_device({}, [] {
    std::atomic<bool> go{false};
    const CUstream stream = new_stream();
    queue_wait(stream, &go);
    std::thread waiting([&, mine = context()] {
      OK(cuCtxSetCurrent(mine));
      OK(cuStreamSynchronize(stream));
    });
    for (int i = 0; i < 200; ++i) EXPECT_RESULT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    go = true;
    waiting.join();
    return 0;
  });
}

TEST_CASE("host function: it runs in no thread of the program, and others after it") {
  count_over_seeds(20, [] {
    static std::atomic<int> order{0};
    static std::thread::id ran_in;
    const CUstream streams[] = {new_stream(), new_stream()};
    CUevent event = nullptr;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(
        streams[0],
        [](void*) {
          ran_in = std::this_thread::get_id();
          EXPECT(order++ == 0);
        },
        nullptr));
    OK(cuEventRecord(event, streams[0]));
    OK(cuStreamWaitEvent(streams[1], event, 0));
    OK(cuLaunchHostFunc(
        streams[1], [](void*) { EXPECT(order++ == 1); }, nullptr));
    OK(cuCtxSynchronize());
    EXPECT(order == 2);
    EXPECT(ran_in != std::this_thread::get_id());
    return 0;
  });
}

TEST_CASE("host function: other streams go on while it runs") {
  count_over_seeds(8, [] {
    std::atomic<bool> go{false};
    const CUstream stream = new_stream();
    const CUstream other = new_stream();
    queue_wait(stream, &go);
    CUdeviceptr word = 0;
    OK(cuMemAlloc(&word, sizeof(int)));
    OK(cuMemsetD32Async(word, 3, 1, other));
    OK(cuStreamSynchronize(other));
    int value = 0;
    OK(cuMemcpyDtoHAsync(&value, word, sizeof value, other));
    EXPECT(value == 3);
    go = true;
    OK(cuCtxSynchronize());
    return 0;
  });
}
