// A training-like job whose kernels have no CPU bodies: what it prints depends on every byte that it computes
// with. A forward pass keeps all activations for the backward pass, so most memory is idle most of the time.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/sim/job.h"

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr int kLayers = 16;

}  // namespace

__global__ void forward(const float* in, const float* weights, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i] * weights[i];
}

__global__ void backward(const float* gradient, const float* activation, float* weights, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = gradient[i] * weights[i];
  if (i < n) weights[i] -= gradient[i] * activation[i];
}

// A table of pointers, as batched kernels get it.
__global__ void gather(const float* const* parts, float* out, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += parts[i][threadIdx.x];
  out[threadIdx.x] = sum;
}

namespace {

float* device_memory(std::size_t bytes) {
  float* memory = nullptr;
  OK(cudaMalloc(&memory, bytes));
  return memory;
}

std::uint64_t mixed(std::uint64_t hash, const std::vector<std::uint32_t>& values) {
  for (const std::uint32_t value : values) hash = (hash ^ value) * 1099511628211U;
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 2;
  const bool with_table = argc > 2;
  constexpr int kCount = kBytes / sizeof(float);
  constexpr int kThreads = 256;
  std::vector<float*> activations, weights;
  std::vector<std::uint32_t> host(kBytes / sizeof(std::uint32_t));
  for (int i = 0; i <= kLayers; ++i) {
    activations.push_back(device_memory(kBytes));
    weights.push_back(device_memory(kBytes));
    for (std::size_t j = 0; j < host.size(); ++j)
      host[j] = static_cast<std::uint32_t>((j + 1) * (i + 1) * 2654435761U);
    OK(cudaMemcpy(weights.back(), host.data(), kBytes, cudaMemcpyHostToDevice));
  }
  float* const small = device_memory(1000);
  float** table = nullptr;
  OK(cudaMalloc(&table, 64 * sizeof(float*)));
  const float* parts[] = {activations[1], activations[5] + 100, weights[3]};
  OK(cudaMemcpy(table, parts, sizeof parts, cudaMemcpyHostToDevice));

  // A copy from pageable memory may still be on its way, and the streams below do not wait for it by
  // themselves.
  OK(cudaDeviceSynchronize());
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t done;
  OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  const dim3 grid(kCount / kThreads);
  std::uint64_t hash = 14695981039346656037U;
  for (int step = 0; step < steps; ++step) {
    // The first activation is written in part: the rest was never written, or is of the step before.
    OK(cudaMemsetAsync(activations[0], step + 1, kBytes / 2 + 100, streams[0]));
    for (int i = 0; i < kLayers; ++i) {
      forward<<<grid, kThreads, 0, streams[0]>>>(activations[i], weights[i], activations[i + 1], kCount);
    }
    OK(cudaEventRecord(done, streams[0]));
    OK(cudaStreamWaitEvent(streams[1], done, 0));
    // Two streams read the same memory, in whatever order.
    if (with_table) {
      gather<<<1, 64, 0, streams[1]>>>(table, small, 3);
    } else {
      forward<<<1, 250, 0, streams[1]>>>(activations[5], activations[7], small, 250);
    }
    float* gradient = device_memory(kBytes);
    OK(cudaMemcpyAsync(gradient, activations[kLayers], kBytes, cudaMemcpyDeviceToDevice, streams[0]));
    for (int i = kLayers; i > 0; --i) {
      float* const next = device_memory(kBytes);  // never written before
      backward<<<grid, kThreads, 0, streams[0]>>>(gradient, activations[i - 1], weights[i], next, kCount);
      OK(cudaEventRecord(done, streams[1]));
      OK(cudaStreamWaitEvent(streams[0], done, 0));
      OK(cudaFree(gradient));
      gradient = next;
    }
    std::vector<std::uint32_t> result(250);
    OK(cudaStreamSynchronize(streams[1]));
    OK(cudaMemcpy(result.data(), small, 1000, cudaMemcpyDeviceToHost));
    hash = mixed(hash, result);
    OK(cudaStreamSynchronize(streams[0]));
    OK(cudaMemcpy(host.data(), gradient, kBytes, cudaMemcpyDeviceToHost));
    hash = mixed(hash, host);
    OK(cudaFree(gradient));
  }
  OK(cudaDeviceSynchronize());
  for (float* w : weights) {
    OK(cudaMemcpy(host.data(), w, kBytes, cudaMemcpyDeviceToHost));
    hash = mixed(hash, host);
  }
  OK(cudaGetLastError());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}
