// A small CUDA program with the shapes that real ones have: pinned and pageable memory, three streams,
// events, shared memory, a kernel template, errors that are looked at. Prints numbers that depend on all of
// it.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simgpu/kernel.h"

namespace {

void check(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

struct Fill {
  template <class C>
  __host__ __device__ static void run(C& c, unsigned* out, unsigned n, unsigned start) {
    c.writes(out, sizeof(unsigned) * n);
    c.phase([&](unsigned tid) {
      const auto i = c.global_x(tid);
      if (i < n) out[i] = start + static_cast<unsigned>(i) * 2654435761u;
    });
  }
};
SIMGPU_KERNEL(fill, Fill, (unsigned* out, unsigned n, unsigned start), out, n, start)

/// Reverses each block through shared memory and counts odd values.
struct Reverse {
  template <class C>
  __host__ __device__ static void run(C& c, const unsigned* in, unsigned* out, unsigned* odd) {
    SIMGPU_SHARED(c, unsigned, tile, 256);
    auto mine = simgpu::local<unsigned>(c);
    c.phase([&](unsigned tid) {
      mine(tid) = in[c.global_x(tid)];
      tile[tid] = mine(tid);
    });
    c.phase([&](unsigned tid) {
      out[c.global_x(tid)] = tile[c.block_threads() - 1 - tid] ^ mine(tid);
      if (mine(tid) % 2 == 1) c.atomic_add(odd, 1u);
    });
  }
};
SIMGPU_KERNEL(reverse, Reverse, (const unsigned* in, unsigned* out, unsigned* odd), in, out, odd)

struct Pair {
  unsigned factor;
  unsigned* data;
};

template <class T>
struct Scale {
  template <class C>
  __host__ __device__ static void run(C& c, Pair pair, unsigned n) {
    c.phase([&](unsigned tid) {
      const auto i = c.global_x(tid);
      if (i < n) pair.data[i] = static_cast<unsigned>(static_cast<T>(pair.data[i]) * pair.factor);
    });
  }
};
template <class T>
__global__ void scale(Pair pair, unsigned n) {
  simgpu::DeviceContext context;
  Scale<T>::run(context, pair, n);
}
[[maybe_unused]] const bool g_registered = simgpu::register_kernel<Scale<unsigned>>(&scale<unsigned>);

unsigned digest(const std::vector<unsigned>& values) {
  unsigned hash = 2166136261u;
  for (const unsigned value : values) hash = (hash ^ value) * 16777619u;
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned kCount = 1 << 16;
  constexpr std::size_t kBytes = kCount * sizeof(unsigned);
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaSetDevice(0));
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("devices %d capability %d.%d\n", devices, properties.major, properties.minor);

  unsigned *a = nullptr, *b = nullptr, *odd = nullptr, *pinned = nullptr;
  CHECK(cudaMalloc(&a, kBytes));
  CHECK(cudaMalloc(&b, kBytes));
  CHECK(cudaMalloc(&odd, sizeof(unsigned)));
  CHECK(cudaMallocHost(&pinned, kBytes));
  cudaStream_t compute = nullptr, in = nullptr, out = nullptr;
  CHECK(cudaStreamCreate(&compute));
  CHECK(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&out, cudaStreamNonBlocking, -1));
  cudaEvent_t filled = nullptr, copied = nullptr;
  CHECK(cudaEventCreate(&filled));
  CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));

  std::vector<unsigned> result(kCount);
  for (unsigned round = 0; round < 8; ++round) {
    CHECK(cudaMemsetAsync(odd, 0, sizeof(unsigned), compute));
    if (round % 2 == 0) {
      fill<<<kCount / 256, 256, 0, compute>>>(a, kCount, round);
    } else {
      // The copy out of the round before must be over before the host writes the pinned memory.
      CHECK(cudaEventSynchronize(copied));
      for (unsigned i = 0; i < kCount; ++i) pinned[i] = i * round;
      CHECK(cudaMemcpyAsync(a, pinned, kBytes, cudaMemcpyHostToDevice, in));
      CHECK(cudaEventRecord(filled, in));
      CHECK(cudaStreamWaitEvent(compute, filled, 0));
    }
    reverse<<<kCount / 256, 256, 0, compute>>>(a, b, odd);
    scale<unsigned><<<kCount / 256, 256, 0, compute>>>(Pair{round + 3, b}, kCount);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(filled, compute));
    CHECK(cudaStreamWaitEvent(out, filled, 0));
    CHECK(cudaMemcpyAsync(pinned, b, kBytes, cudaMemcpyDeviceToHost, out));
    CHECK(cudaEventRecord(copied, out));
    unsigned count = 0;
    CHECK(cudaMemcpyAsync(&count, odd, sizeof count, cudaMemcpyDeviceToHost, compute));
    while (cudaEventQuery(copied) == cudaErrorNotReady) {
    }
    static_cast<void>(cudaGetLastError());
    std::memcpy(result.data(), pinned, kBytes);
    std::printf("round %u odd %u digest %08x\n", round, count, digest(result));
  }

  // The default stream, synchronous calls, and what the runtime says about mistakes.
  CHECK(cudaMemset2D(b, 1024, 7, 512, 16));
  CHECK(cudaMemcpy2D(result.data(), 512, b, 1024, 512, 16, cudaMemcpyDeviceToHost));
  std::printf("2d %08x\n", digest(result));
  std::printf("bad copy %s\n", cudaGetErrorName(cudaMemcpy(a, b, 4, static_cast<cudaMemcpyKind>(77))));
  std::printf("bad free %s\n", cudaGetErrorName(cudaFree(reinterpret_cast<char*>(a) + 8)));
  void* huge = nullptr;
  std::printf("huge %s\n", cudaGetErrorName(cudaMalloc(&huge, std::size_t{1} << 50)));
  std::printf("last %s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("then %s\n", cudaGetErrorName(cudaGetLastError()));
  fill<<<0, 256>>>(a, kCount, 0);
  std::printf("empty grid %s\n", cudaGetErrorName(cudaGetLastError()));
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, a + 5));
  std::printf("pointer type %d\n", static_cast<int>(attributes.type));
  CHECK(cudaPointerGetAttributes(&attributes, result.data()));
  std::printf("pointer type %d\n", static_cast<int>(attributes.type));
  cudaFuncAttributes function{};
  CHECK(cudaFuncGetAttributes(&function, reinterpret_cast<const void*>(&fill)));
  std::printf("threads %d\n", function.maxThreadsPerBlock);

  if (argc > 1 && std::strcmp(argv[1], "fault") == 0) {
    fill<<<1, 32>>>(reinterpret_cast<unsigned*>(result.data()), 32, 0);
    std::printf("fault %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    std::printf("stays %s\n", cudaGetErrorName(cudaFree(a)));
    return 3;
  }
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(odd));
  CHECK(cudaFreeHost(pinned));
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  std::printf("in use %zu\n", total - free);
  return 0;
}
