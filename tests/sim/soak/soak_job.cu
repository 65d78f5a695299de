// What a long-lived program does, in a loop, for so many seconds: memory of changing sizes by every call,
// from threads that come and go with streams of their own, graphs that are captured again and again, modules
// that are loaded and unloaded. Every block is checked before it is freed. Nothing it holds grows with time.
//
//   soak_job SECONDS SEED [IMAGE]
//
// Prints how many rounds there were and how many words were not what was written.

#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"

namespace {

using Word = unsigned long long;
using Clock = std::chrono::steady_clock;
constexpr unsigned kThreads = 32;
constexpr std::size_t kLongLived = 24;

SIMGPU_HD Word expected(Word key, std::size_t at) {
  return (key + at) * 0x9E3779B97F4A7C15u;
}

/// One word of each 16 KiB, the last one too: enough to see a block or a piece of it that is not its own.
constexpr std::size_t kStride = 2048;

struct Fill {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* to, std::size_t words, Word key) {
    c.writes(to, words * sizeof(Word));
    c.phase([&](unsigned tid) {
      for (std::size_t i = tid * kStride; i < words; i += kThreads * kStride) to[i] = expected(key, i);
      if (tid == 0) to[words - 1] = expected(key, words - 1);
    });
  }
};
SIMGPU_KERNEL(fill, Fill, (Word * to, std::size_t words, Word key), to, words, key)

/// Counts words that differ, and changes the key of those that do not.
struct Turn {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* at, std::size_t words, Word key, Word next, Word* wrong) {
    c.reads(at, words * sizeof(Word));
    c.writes(at, words * sizeof(Word));
    c.reads(wrong, sizeof(Word));
    c.writes(wrong, sizeof(Word));
    c.phase([&](unsigned tid) {
      if (tid != 0) return;  // so that the count needs no atomic
      for (std::size_t i = 0; i < words; i += kStride) {
        *wrong += at[i] != expected(key, i) ? 1 : 0;
        at[i] = expected(next, i);
      }
      if ((words - 1) % kStride != 0) {
        *wrong += at[words - 1] != expected(key, words - 1) ? 1 : 0;
        at[words - 1] = expected(next, words - 1);
      }
    });
  }
};
SIMGPU_KERNEL(turn, Turn, (Word * at, std::size_t words, Word key, Word next, Word* wrong), at, words, key,
              next, wrong)

void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "soak_job: %s: %d\n", what, error);
  std::exit(1);
}
#define OK(call) check(static_cast<int>(call), #call)

enum class How { kPlain, kAsync, kPool };

/// Memory that holds words made of its key, written in its stream.
struct Block {
  Word* at = nullptr;
  std::size_t words = 0;
  Word key = 0;
  How how = How::kPlain;
};

class Worker {
 public:
  Worker(std::uint64_t seed, cudaStream_t stream, cudaMemPool_t pool)
      : random_(seed), stream_(stream), pool_(pool) {
    OK(cudaMallocAsync(reinterpret_cast<void**>(&wrong_), sizeof(Word), stream_));
    OK(cudaMemsetAsync(wrong_, 0, sizeof(Word), stream_));
  }

  /// From 4 KiB to 10 MiB, the large ones of other sizes as time goes on.
  std::size_t size(double phase) {
    if (draw(4) == 0) return 4096 * (1 + draw(64));
    const auto most = static_cast<std::size_t>(2 + 8 * phase);
    return (std::size_t{1} << 20) * (1 + draw(most)) + 256 * draw(1024);
  }

  Block make(std::size_t bytes) {
    Block block{nullptr, bytes / sizeof(Word), random_(), static_cast<How>(draw(3))};
    void** const to = reinterpret_cast<void**>(&block.at);
    if (block.how == How::kPlain) OK(cudaMalloc(to, bytes));
    if (block.how == How::kAsync) OK(cudaMallocAsync(to, bytes, stream_));
    if (block.how == How::kPool) OK(cudaMallocFromPoolAsync(to, bytes, pool_, stream_));
    fill<<<1, kThreads, 0, stream_>>>(block.at, block.words, block.key);
    OK(cudaGetLastError());
    return block;
  }

  void look(Block& block) {
    const Word next = block.key + 1;
    turn<<<1, kThreads, 0, stream_>>>(block.at, block.words, block.key, next, wrong_);
    OK(cudaGetLastError());
    block.key = next;
  }

  void drop(Block& block) {
    look(block);
    if (block.how == How::kPlain) {
      OK(cudaFree(block.at));
    } else {
      OK(cudaFreeAsync(block.at, stream_));
    }
  }

  /// The same look at two of the blocks, recorded into a graph, which is launched twice.
  void look_by_graph(std::vector<Block>& blocks) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 2; ++i) {  // to the next key and back, so that it can be launched again
      const Block& block = blocks[static_cast<std::size_t>(i)];
      turn<<<1, kThreads, 0, stream_>>>(block.at, block.words, block.key, block.key + 1, wrong_);
      turn<<<1, kThreads, 0, stream_>>>(block.at, block.words, block.key + 1, block.key, wrong_);
    }
    OK(cudaStreamEndCapture(stream_, &graph));
    OK(cudaGraphInstantiate(&instance, graph, 0));
    for (int i = 0; i < 2; ++i) OK(cudaGraphLaunch(instance, stream_));
    OK(cudaStreamSynchronize(stream_));
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(graph));
  }

  /// Words that were wrong; the stream is idle afterwards.
  Word end() {
    Word wrong = 0;
    OK(cudaMemcpyAsync(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost, stream_));
    OK(cudaStreamSynchronize(stream_));
    OK(cudaFreeAsync(wrong_, stream_));
    return wrong;
  }

  std::size_t draw(std::size_t below) { return random_() % below; }

 private:
  std::mt19937_64 random_;
  cudaStream_t stream_;
  cudaMemPool_t pool_;
  Word* wrong_ = nullptr;
};

/// What a thread does with its life.
Word work(std::uint64_t seed, double phase, cudaMemPool_t pool) {
  cudaStream_t stream = cudaStreamPerThread;
  if (seed % 3 != 0)
    OK(cudaStreamCreateWithFlags(&stream, seed % 3 == 1 ? cudaStreamNonBlocking : cudaStreamDefault));
  Worker worker(seed, stream, pool);
  std::vector<Block> blocks;
  for (std::size_t i = 2 + worker.draw(3); i > 0; --i) blocks.push_back(worker.make(worker.size(phase)));
  for (int i = 0; i < 3; ++i) worker.look(blocks[worker.draw(blocks.size())]);
  if (seed % 2 == 0 && stream != cudaStreamPerThread) worker.look_by_graph(blocks);
  for (Block& block : blocks) worker.drop(block);
  const Word wrong = worker.end();
  if (stream != cudaStreamPerThread) OK(cudaStreamDestroy(stream));
  return wrong;
}

/// A module comes, works on memory of its own and goes.
void load_and_unload(const char* file) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr at = 0;
  float by = 2;
  OK(cuModuleLoad(&module, file));
  OK(cuModuleGetFunction(&function, module, "_Z5scaleIfEvPT_S0_"));
  OK(cuMemAlloc(&at, 1 << 20));
  OK(cuMemsetD32(at, 0, (1 << 20) / 4));
  void* arguments[] = {&at, &by};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  OK(cuCtxSynchronize());
  OK(cuMemFree(at));
  OK(cuModuleUnload(module));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* const image = argc > 3 ? argv[3] : nullptr;
  std::mt19937_64 random(seed);

  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  OK(cudaMemPoolCreate(&pool, &properties));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  Worker owner(seed, stream, pool);
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < kLongLived; ++i) blocks.push_back(owner.make(std::size_t{4} << 20));

  Word wrong = 0;
  std::uint64_t rounds = 0;
  const auto start = Clock::now();
  for (;; ++rounds) {
    const double now = std::chrono::duration<double>(Clock::now() - start).count();
    if (now >= seconds) break;
    const double phase = static_cast<double>(rounds % 32) / 32;
    std::vector<std::thread> threads;
    std::vector<Word> wrong_there(1 + random() % 2);
    for (Word& count : wrong_there) {
      threads.emplace_back([&count, pool, phase, one = random()] { count = work(one, phase, pool); });
    }
    for (int i = 0; i < 6; ++i) owner.look(blocks[owner.draw(kLongLived)]);
    Block& replaced = blocks[owner.draw(kLongLived)];
    owner.drop(replaced);
    replaced = owner.make(owner.size(phase) / 2);
    for (std::thread& thread : threads) thread.join();
    for (const Word count : wrong_there) wrong += count;
    if (image != nullptr && rounds % 8 == 0) load_and_unload(image);
  }
  for (Block& block : blocks) owner.drop(block);
  wrong += owner.end();
  OK(cudaStreamDestroy(stream));
  OK(cudaMemPoolDestroy(pool));
  std::printf("%llu rounds, %llu wrong\n", static_cast<unsigned long long>(rounds), wrong);
  return wrong == 0 ? 0 : 1;
}
