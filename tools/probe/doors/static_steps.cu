// `static_steps STEPS`: a program that carries its own CUDA runtime (nvcc -cudart static), and knows how
// often it allocates, copies, sets and launches: 3 launches, 2 allocations and frees, 2 copies and 1 memset a
// step, after a warm-up step of the same. Prints its own counts as the truth that door and CUPTI are held
// against.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kThreads = 256;
constexpr int kElements = 1 << 16;
constexpr int kLaunches = 3;
constexpr int kNothingToCount = 77;

__global__ void add_one(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += 1.0F;
}

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "static_steps: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

void step(std::vector<float>& host) {
  const std::size_t bytes = host.size() * sizeof(float);
  float* values = nullptr;
  float* other = nullptr;
  CHECK(cudaMalloc(&values, bytes));
  CHECK(cudaMalloc(&other, bytes));
  CHECK(cudaMemset(other, 0, bytes));
  CHECK(cudaMemcpy(values, host.data(), bytes, cudaMemcpyHostToDevice));
  for (int i = 0; i < kLaunches; ++i) {
    add_one<<<kElements / kThreads, kThreads>>>(values, kElements);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaMemcpy(host.data(), values, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(values));
  CHECK(cudaFree(other));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc == 2 ? std::atoi(argv[1]) : 0;
  if (steps <= 0) {
    std::fprintf(stderr, "usage: static_steps STEPS\n");
    return 2;
  }
  if (const cudaError_t start = cudaFree(nullptr); start != cudaSuccess) {
    const bool lacks_tables = start == cudaErrorSymbolNotFound;
    std::fprintf(
        stderr, "static_steps: the CUDA runtime does not start: %s%s\n", cudaGetErrorString(start),
        lacks_tables ? " (it asks the driver for private tables, cuGetExportTable, and gets none)" : "");
    return kNothingToCount;
  }
  std::vector<float> host(kElements, 0.0F);
  for (int i = 0; i <= steps; ++i) step(host);
  for (const float value : host) {
    if (value == static_cast<float>(kLaunches * (steps + 1))) continue;
    std::fprintf(stderr, "static_steps: a value is %f\n", static_cast<double>(value));
    return 1;
  }
  const int all = steps + 1;
  std::printf(
      "{\"schema\": \"tidepool.probe/1\", \"section\": \"doors\", \"kind\": \"answer\", "
      "\"name\": \"truth\", \"program\": \"static_steps\", \"steps\": %d, \"launches\": %d, "
      "\"allocations\": %d, \"frees\": %d, \"copies\": %d, \"memsets\": %d}\n",
      steps, kLaunches * all, 2 * all, 2 * all, 2 * all, all);
  return 0;
}
