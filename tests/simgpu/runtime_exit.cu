// What programs do at their edges: CUDA calls before main, from threads that end or outlive main, and from
// destructors of static objects; and questions for what is not there.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "simgpu/kernel.h"

namespace {

void check(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorName(error));
  std::_Exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

struct Count {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out) {
    c.phase([&](unsigned tid) {
      if (tid == 0) c.atomic_add(out, 1u);
    });
  }
};
SIMGPU_KERNEL(count, Count, (unsigned* out), out)

/// Allocated before main, counted in a destructor after it.
class Counter {
 public:
  Counter() { CHECK(cudaMalloc(&out_, sizeof *out_)); }
  ~Counter() {
    launch();
    unsigned counted = 0;
    CHECK(cudaMemcpy(&counted, out_, sizeof counted, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(out_));
    std::printf("counted %u\n", counted);
    std::fflush(stdout);
  }
  void clear() { CHECK(cudaMemset(out_, 0, sizeof *out_)); }
  void launch() {
    count<<<1, 32>>>(out_);
    CHECK(cudaGetLastError());
  }

 private:
  unsigned* out_ = nullptr;
};
Counter g_counter;

/// Leaves a report with something in each list of what is missing.
void ask_for_what_is_not_there() {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  std::printf("array %s\n", cudaGetErrorName(cudaMallocArray(&array, &format, 4, 4)));
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  CHECK(cudaGetDriverEntryPointByVersion("cuFromTheFuture", &found, CUDART_VERSION, cudaEnableDefault,
                                         &status));
  std::printf("future %d\n", status);
  CHECK(
      cudaGetDriverEntryPointByVersion("cuArrayDestroy", &found, CUDART_VERSION, cudaEnableDefault, &status));
  std::printf("driver %d\n", reinterpret_cast<int (*)(void*)>(found)(nullptr));
  static_cast<void>(cudaGetLastError());
}

}  // namespace

int main(int argc, char**) {
  g_counter.clear();
  for (int i = 0; i < 4; ++i) std::thread([] { g_counter.launch(); }).join();
  CHECK(cudaDeviceSynchronize());
  if (argc > 1) ask_for_what_is_not_there();
  // Nobody waits for this thread: it calls CUDA while the process ends.
  std::thread([] {
    for (;;) {
      void* block = nullptr;
      if (cudaMalloc(&block, 1) != cudaSuccess || cudaFree(block) != cudaSuccess) std::_Exit(2);
    }
  }).detach();
  return 0;
}
