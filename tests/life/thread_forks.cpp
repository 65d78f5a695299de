#include "tests/life/thread_forks.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/shim/probe.h"

namespace tidepool::test {

// A thread that has used its own stream forks, and the child ends as that thread does, while others come and
// go. That is no reason to call a driver that the child may not use, nor to wait for who is not there.
void thread_forks(bool only_records) {
  const CUcontext context = start();
  constexpr std::size_t kBlock = 4 * kMiB;
  static CUdeviceptr block;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
  const auto use_own_stream = [context] {
    EXPECT(DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8Async)(block, 1, kBlock, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  };
  using Observe = void(void (*)(const char*));
  Observe* const observe = only_records ? find<Observe>("tp_recording_observe") : nullptr;
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!stop) std::thread(use_own_stream).join();
    });
  }
  for (int i = 0; i < 60; ++i) {
    std::thread([&] {
      use_own_stream();
      const pid_t child = fork();
      if (child == 0) {
        alarm(30);
        if (observe != nullptr) observe([](const char*) { _exit(9); });
        pthread_exit(nullptr);
      }
      int status = 0;
      EXPECT(waitpid(child, &status, 0) == child);
      EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }).join();
  }
  stop = true;
  for (std::thread& other : others) other.join();
}

}  // namespace tidepool::test
