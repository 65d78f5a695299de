// What one thread does while a call of another waits. Documentation: CUDA Driver API; it says of no call here
// that threads must not be in it at once.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

std::atomic<bool> g_inside{false};
std::atomic<bool> g_go{false};

void hold(void*) {
  g_inside = true;
  while (!g_go) std::this_thread::yield();
}

/// Until calls that are made now wait.
void let_them_wait() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

TEST_CASE("threads: a module is unloaded while a launch of a large graph waits for room in a queue") {
  // Needs valgrind or a sanitizer to fail every time.
  const int wrong = count_over_seeds(10, [] {
    constexpr int kKernels = 3000;
    const CUfunction step = step_kernel();
    const CUdeviceptr out = new_ints(1);
    const CUgraph graph = new_graph();
    CUgraphNode last = add_empty(graph, {});
    for (int i = 0; i < kKernels; ++i) last = add_step(graph, {last}, step, out, 1, 1);
    const CUgraphExec exec = instantiate(graph);
    CUmodule module = nullptr;
    OK(cuFuncGetModule(&module, step));
    const CUcontext current = context();
    const CUstream stream = new_stream();
    std::thread holding([&] {
      OK(cuCtxSetCurrent(current));
      OK(cuLaunchHostFunc(stream, &hold, nullptr));
      OK(cuStreamSynchronize(stream));
    });
    while (!g_inside) std::this_thread::yield();
    std::thread launching([&] {
      OK(cuCtxSetCurrent(current));
      OK(cuGraphLaunch(exec, stream));
    });
    let_them_wait();
    std::thread unloading([&] {
      OK(cuCtxSetCurrent(current));
      OK(cuModuleUnload(module));
    });
    let_them_wait();
    g_go = true;
    for (std::thread* thread : {&holding, &launching, &unloading}) thread->join();
    return int_at(out) == kKernels ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}
