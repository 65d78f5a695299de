// Launches per second of an empty kernel with eight pointers, through the CUDA runtime. Prints one number.

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "simgpu/kernel.h"

namespace {

struct Empty {
  template <class C>
  __host__ __device__ static void run(C& c, float*, float*, float*, float*, float*, float*, float*, float*) {
    c.phase([](unsigned) {});
  }
};
SIMGPU_KERNEL(empty, Empty, (float* a, float* b, float* c, float* d, float* e, float* f, float* g, float* h),
              a, b, c, d, e, f, g, h)

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "launch_rate: %s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

}  // namespace

int main() {
  constexpr int kLaunches = 200000;
  float* blocks[8];
  for (float*& block : blocks) check(cudaMalloc(&block, std::size_t{4} << 20));
  const auto launch = [&] {
    empty<<<1, 1>>>(blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5], blocks[6], blocks[7]);
  };
  for (int i = 0; i < 1000; ++i) launch();
  check(cudaDeviceSynchronize());

  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) launch();
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.0f\n", kLaunches / took.count());
  return EXIT_SUCCESS;
}
