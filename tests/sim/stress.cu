// Threads, streams that come and go, and every kind of copy, on blocks whose contents are known. Prints how
// many words were wrong; run it with and without Tidepool, over seeds.
//
//   stress <seed> <threads> <steps>

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{2} << 20) / sizeof(Word) + 4096;  // a little over 2 MiB

/// Word i of a block with this value. Never zero, so that cleared memory shows.
SIMGPU_HD Word word_of(Word value, std::size_t i) {
  return value * 0x9E3779B97F4A7C15ull + i * 2 + 1;
}

/// Words that are written and checked: one in 61, and the last ones of the block.
SIMGPU_HD bool sampled(std::size_t i) {
  return i % 61 == 0 || i + 8 >= kWords;
}

struct Blocks {
  const Word* in;
  Word expect;
  Word* out;
  Word next;
};

struct Step {
  template <class C>
  SIMGPU_HD static void run(C& c, Blocks blocks, Word* errors) {
    c.reads(blocks.in, kWords * sizeof(Word));
    c.writes(blocks.out, kWords * sizeof(Word));
    c.writes(errors, sizeof(Word));
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += c.block_threads() * c.grid_dim().x) {
        if (!sampled(i)) continue;
        if (blocks.expect != 0 && blocks.in[i] != word_of(blocks.expect, i)) c.atomic_add(errors, Word{1});
        blocks.out[i] = word_of(blocks.next, i);
      }
    });
  }
};
SIMGPU_KERNEL(step, Step, (Blocks blocks, Word* errors), blocks, errors)

std::atomic<unsigned long long> g_wrong{0};

class Worker {
 public:
  explicit Worker(std::uint64_t seed) : random_(seed) {
    OK(cudaStreamCreate(&stream_));
    OK(cudaMalloc(&errors_, sizeof(Word)));
    OK(cudaMemsetAsync(errors_, 0, sizeof(Word), stream_));
    OK(cudaMallocHost(&pinned_, kWords * sizeof(Word)));
    for (int i = 0; i < 5; ++i) add();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) act();
    Word wrong = 0;
    OK(cudaMemcpyAsync(&wrong, errors_, sizeof wrong, cudaMemcpyDeviceToHost, stream_));
    OK(cudaStreamSynchronize(stream_));
    g_wrong += wrong;
    for (Block& block : blocks_) OK(cudaFree(block.at));
    OK(cudaFree(errors_));
    OK(cudaFreeHost(pinned_));
    OK(cudaStreamDestroy(stream_));
  }

 private:
  struct Block {
    Word* at;
    Word value;  ///< 0: not known
  };

  void add() {
    Block block{nullptr, 0};
    OK(cudaMalloc(&block.at, kWords * sizeof(Word)));
    blocks_.push_back(block);
  }

  Block& pick() { return blocks_[random_() % blocks_.size()]; }
  Word fresh() { return (random_() >> 16) + 1; }

  void act() {
    Block& a = pick();
    Block& b = pick();
    switch (random_() % 12) {
      case 0: {  // free and allocate: the new block is somebody's old memory
        OK(cudaFree(a.at));
        OK(cudaMalloc(&a.at, kWords * sizeof(Word)));
        a.value = 0;
        break;
      }
      case 1:
        OK(cudaMemcpyAsync(b.at, a.at, kWords * sizeof(Word), cudaMemcpyDeviceToDevice, stream_));
        b.value = a.value;
        break;
      case 2:
        OK(cudaMemsetAsync(a.at, 0x5a, kWords * sizeof(Word), stream_));
        a.value = 0;
        break;
      case 3:
        read_back(a);
        break;
      case 4:
        upload(a);
        break;
      case 5:  // rows of 64 KiB
        OK(cudaMemcpy2DAsync(b.at, 65536, a.at, 65536, 65536, kWords * sizeof(Word) / 65536,
                             cudaMemcpyDeviceToDevice, stream_));
        b.value = &a == &b ? a.value : 0;
        break;
      case 6:  // a stream ends with its work still queued, and its handle may come back
        if (random_() % 4 == 0) change_stream();
        break;
      default: {
        const Word next = fresh();
        step<<<4, 64, 0, stream_>>>(Blocks{a.at, a.value, b.at, next}, errors_);
        tidepool::test::check(cudaGetLastError(), "launch");
        b.value = next;
      }
    }
  }

  void read_back(const Block& block) {
    if (block.value == 0) return;
    OK(cudaMemcpyAsync(pinned_, block.at, kWords * sizeof(Word), cudaMemcpyDeviceToHost, stream_));
    OK(cudaStreamSynchronize(stream_));
    for (std::size_t i = 0; i < kWords; ++i) {
      if (sampled(i) && pinned_[i] != word_of(block.value, i)) ++g_wrong;
    }
  }

  void upload(Block& block) {
    block.value = fresh();
    OK(cudaStreamSynchronize(stream_));  // the pinned buffer may still be the target of a copy
    for (std::size_t i = 0; i < kWords; ++i) pinned_[i] = word_of(block.value, i);
    OK(cudaMemcpyAsync(block.at, pinned_, kWords * sizeof(Word), cudaMemcpyHostToDevice, stream_));
    OK(cudaStreamSynchronize(stream_));
  }

  void change_stream() {
    cudaStream_t next = nullptr;
    cudaEvent_t here = nullptr;
    OK(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&here, cudaEventDisableTiming));
    OK(cudaEventRecord(here, stream_));
    OK(cudaStreamWaitEvent(next, here, 0));
    OK(cudaEventDestroy(here));
    OK(cudaStreamDestroy(stream_));
    stream_ = next;
  }

  std::mt19937_64 random_;
  cudaStream_t stream_ = nullptr;
  Word* errors_ = nullptr;
  Word* pinned_ = nullptr;
  std::vector<Block> blocks_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: stress <seed> <threads> <steps>\n");
    return 2;
  }
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const int threads = std::atoi(argv[2]);
  const int steps = std::atoi(argv[3]);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([=] { Worker(seed * 64 + static_cast<std::uint64_t>(i)).run(steps); });
  }
  for (std::thread& thread : running) thread.join();
  OK(cudaDeviceSynchronize());
  std::printf("wrong words: %llu\n", g_wrong.load());
  return g_wrong == 0 ? 0 : 1;
}
