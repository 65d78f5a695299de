// A program that ends with 0 whatever the device said: `findings WORD...` does one thing for each word.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "simgpu/kernel.h"

namespace {

struct Set {
  template <class C>
  __host__ __device__ static void run(C& c, int* to, int value) {
    c.writes(to, sizeof(int));
    c.phase([&](unsigned tid) {
      if (tid == 0) *to = value;
    });
  }
};
SIMGPU_KERNEL(set, Set, (int* to, int value), to, value)

}  // namespace

// Without bodies.
__global__ void add_one(int* to) {
  *to += 1;
}
__global__ void add_two(int* to) {
  *to += 2;
}

int main(int argc, char** argv) {
  int* memory = nullptr;
  cudaMalloc(&memory, 4096);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (int i = 1; i < argc; ++i) {
    cudaDeviceSynchronize();
    if (std::strcmp(argv[i], "clean") == 0) set<<<1, 1>>>(memory, 1);
    if (std::strcmp(argv[i], "race") == 0) {
      for (cudaStream_t stream : streams) set<<<1, 1, 0, stream>>>(memory, 1);
    }
    if (std::strcmp(argv[i], "possible") == 0) {
      for (cudaStream_t stream : streams) add_one<<<1, 1, 0, stream>>>(memory);
    }
    if (std::strcmp(argv[i], "digest") == 0) add_one<<<1, 1>>>(memory);
    if (std::strcmp(argv[i], "digests") == 0) {
      add_one<<<1, 1>>>(memory);
      add_two<<<1, 1>>>(memory);
    }
    if (std::strcmp(argv[i], "illegal") == 0) set<<<1, 1>>>(memory + (std::size_t{1} << 40), 1);
    if (std::strcmp(argv[i], "fail") == 0) return 5;
  }
  cudaDeviceSynchronize();
  std::puts("done");
  return 0;
}
