// One thread on two devices: blocks on each, kernels on both in turn, and every way from one to the other.
// Prints a sum of all blocks.
//
//   devices_job <rounds> [reset|reset-first|release|stray]
//
// reset, release: the second device's context, or the first one's, ends half-way and is made anew. stray:
// kernels reach the other device's memory without having been let in.

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{4} << 20) / sizeof(Word);
constexpr std::size_t kBytes = kWords * sizeof(Word);
constexpr unsigned kGrid = 8;
constexpr unsigned kThreads = 64;
constexpr int kBlocks = 8;  // on each device

/// out[i] = out[i] * 3 + in[i] + more, at words that the sum reads.
struct Mix {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* in, Word* out, Word more) {
    c.reads(in, kBytes);
    c.reads(out, kBytes);
    c.writes(out, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid) * 16; i < kWords; i += std::size_t{kGrid} * kThreads * 16) {
        out[i] = out[i] * 3 + in[i] + more;
      }
    });
  }
};
SIMGPU_KERNEL(mix, Mix, (const Word* in, Word* out, Word more), in, out, more)

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "devices_job: not so: %s\n", what);
  std::exit(1);
}
#define EXPECT(condition) expect(condition, #condition)

/// A function of the driver, as libraries find it.
template <class Function>
Function driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  expect(found != nullptr, name);
  return reinterpret_cast<Function>(found);
}

struct Side {
  int device;
  cudaStream_t stream = nullptr;
  std::array<Word*, kBlocks> blocks{};
  Word* pooled = nullptr;

  explicit Side(int ordinal) : device(ordinal) { open(); }

  void open() {
    OK(cudaSetDevice(device));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < kBlocks; ++i) {
      OK(cudaMalloc(&blocks[i], kBytes));
      OK(cudaMemsetAsync(blocks[i], 1 + i + device, kBytes, stream));
    }
    OK(cudaMallocAsync(&pooled, kBytes, stream));
    OK(cudaMemsetAsync(pooled, 7, kBytes, stream));
  }

  void launch(const Word* in, Word* out, Word more) const {
    mix<<<kGrid, kThreads, 0, stream>>>(in, out, more);
    OK(cudaGetLastError());
  }

  void work(Word round) const {
    OK(cudaSetDevice(device));
    for (int i = 0; i < kBlocks; ++i) launch(blocks[i], blocks[(i + 1) % kBlocks], round);
    launch(blocks[0], pooled, round);
  }

  [[nodiscard]] Word sum(const Word* at) const {
    static std::vector<Word> host(kWords);
    OK(cudaSetDevice(device));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(host.data(), at, kBytes, cudaMemcpyDeviceToHost));
    Word total = 0;
    for (const Word word : host) total = total * 31 + word;
    return total;
  }

  void close() {
    OK(cudaSetDevice(device));
    OK(cudaFreeAsync(pooled, stream));
    for (Word* block : blocks) OK(cudaFree(block));
    OK(cudaStreamDestroy(stream));
    OK(cudaDeviceReset());
  }
};

/// Later work of one side waits for what the other has been given.
void order(const Side& before, const Side& after) {
  cudaEvent_t event = nullptr;
  OK(cudaSetDevice(before.device));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, before.stream));
  OK(cudaStreamWaitEvent(after.stream, event, 0));
  OK(cudaEventDestroy(event));
}

// Each in the stream of the first side, with its device current, while memory of the second is named.
void copy_between(const Side& a, const Side& b) {
  order(b, a);
  OK(cudaSetDevice(a.device));
  OK(cudaMemcpyPeerAsync(b.blocks[1], b.device, a.blocks[1], a.device, kBytes, a.stream));
  OK(cudaMemcpyAsync(b.blocks[2], a.blocks[2], kBytes, cudaMemcpyDeviceToDevice, a.stream));
  OK(cudaMemcpyAsync(a.blocks[3], b.blocks[3], kBytes, cudaMemcpyDefault, a.stream));
  // Both ends on the other device.
  OK(cudaMemcpyAsync(b.blocks[5], b.blocks[4], kBytes, cudaMemcpyDeviceToDevice, a.stream));
  OK(cudaMemcpy2DAsync(b.blocks[6], 8192, a.blocks[6], 4096, 4096, 500, cudaMemcpyDeviceToDevice, a.stream));
  order(a, b);
}

void use_host(const Side& a, const Side& b) {
  static std::vector<Word> host(kWords, 5);
  OK(cudaStreamSynchronize(b.stream));
  OK(cudaSetDevice(a.device));
  OK(cudaMemcpy(b.blocks[7], host.data(), kBytes, cudaMemcpyHostToDevice));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(host.data(), b.blocks[0], kBytes, cudaMemcpyDeviceToHost));
}

// Kernels of the first side reach the second side's memory.
void reach(const Side& a, const Side& b) {
  order(b, a);
  OK(cudaSetDevice(a.device));
  a.launch(b.blocks[3], a.blocks[4], 11);
  a.launch(a.blocks[5], b.blocks[4], 12);
  order(a, b);
}

void ask(const Side& side) {
  for (const Word* at : {side.blocks[0], side.pooled}) {
    cudaPointerAttributes told{};
    OK(cudaPointerGetAttributes(&told, at + 9));
    EXPECT(told.type == cudaMemoryTypeDevice);
    EXPECT(told.device == side.device);
  }
}

// Memory of the second device's pool, for work in the first one's stream. Its kernels may reach it.
void use_pool_of_other(const Side& a, const Side& b) {
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, b.device));
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, a.device};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  OK(cudaMemPoolSetAccess(pool, &access, 1));
  OK(cudaSetDevice(a.device));
  Word* memory = nullptr;
  OK(cudaMallocFromPoolAsync(&memory, kBytes, pool, a.stream));
  cudaPointerAttributes told{};
  OK(cudaPointerGetAttributes(&told, memory));
  EXPECT(told.device == b.device);
  OK(cudaMemcpyPeerAsync(memory, b.device, a.blocks[0], a.device, kBytes, a.stream));
  a.launch(memory, a.blocks[1], 13);
  OK(cudaFreeAsync(memory, a.stream));
}

// The context ends with its memory; the other device goes on with its own.
void end_context(Side& side, const char* how) {
  if (how == nullptr) return;
  std::printf("before %llu\n", side.sum(side.blocks[1]));
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  OK(cudaSetDevice(side.device));
  OK(cudaMemGetInfo(&before, &total));
  if (std::strncmp(how, "reset", 5) == 0) {
    OK(cudaDeviceReset());
  } else {
    const auto release = driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease");
    const auto state = driver<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    unsigned flags = 0;
    int active = 1;
    // The runtime holds one reference.
    EXPECT(release(side.device) == CUDA_SUCCESS);
    EXPECT(state(side.device, &flags, &active) == CUDA_SUCCESS);
    EXPECT(active == 0);
    const auto retain = driver<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
    CUcontext again = nullptr;
    EXPECT(retain(&again, side.device) == CUDA_SUCCESS);
  }
  OK(cudaSetDevice(side.device));
  OK(cudaMemGetInfo(&after, &total));
  EXPECT(after > before);
  side.open();
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2;
  const char* const ends = argc > 2 ? argv[2] : nullptr;
  Side a(0);
  Side b(1);
  Side& ends_early = ends != nullptr && std::strcmp(ends, "reset-first") == 0 ? a : b;
  const bool strays = ends != nullptr && std::strcmp(ends, "stray") == 0;
  if (strays) {
    reach(a, b);
    OK(cudaStreamSynchronize(a.stream));
  }
  for (int round = 0; round < rounds; ++round) {
    if (round == rounds / 2) end_context(ends_early, ends);
    a.work(static_cast<Word>(round));
    b.work(static_cast<Word>(round) + 100);
    copy_between(a, b);
    copy_between(b, a);
    use_host(a, b);
    ask(a);
    ask(b);
  }
  if (ends == nullptr) {
    OK(cudaSetDevice(a.device));
    OK(cudaDeviceEnablePeerAccess(b.device, 0));
    EXPECT(cudaDeviceEnablePeerAccess(b.device, 0) == cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    for (int round = 0; round < rounds; ++round) {
      reach(a, b);
      a.work(static_cast<Word>(round));
      b.work(static_cast<Word>(round));
      use_pool_of_other(a, b);
    }
  }
  for (const Side* side : {&a, &b}) {
    for (const Word* block : side->blocks) std::printf("%llu\n", side->sum(block));
    std::printf("pooled %llu\n", side->sum(side->pooled));
  }
  a.close();
  b.close();
  return 0;
}
