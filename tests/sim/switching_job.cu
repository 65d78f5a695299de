// Threads that go from device to device, and devices whose memory ends at different times. Each mode checks
// what it reads, and prints only what does not depend on which thread came first.
//
//   switching_job threads|second|fill|fork|guest

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kWords = kBytes / sizeof(Word);
constexpr unsigned kGrid = 8;
constexpr unsigned kThreads = 64;

/// Adds to every sixteenth word.
struct Add {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* at, Word more) {
    c.reads(at, kBytes);
    c.writes(at, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid) * 16; i < kWords; i += std::size_t{kGrid} * kThreads * 16)
        at[i] += more;
    });
  }
};
SIMGPU_KERNEL(add, Add, (Word * at, Word more), at, more)

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "switching_job: not so: %s (last error: %s)\n", what,
               cudaGetErrorString(cudaPeekAtLastError()));
  std::_Exit(1);
}
#define OK(call) expect((call) == cudaSuccess, #call)
#define EXPECT(condition) expect(condition, #condition)

Word value_of(unsigned char byte) {
  Word word = 0;
  std::memset(&word, byte, sizeof word);
  return word;
}

/// A block of one device and what it must contain.
struct Block {
  int device = 0;
  Word* at = nullptr;
  Word value = 0;

  void make(int on, unsigned char byte) {
    device = on;
    value = value_of(byte);
    OK(cudaSetDevice(device));
    OK(cudaMalloc(&at, kBytes));
    OK(cudaMemset(at, byte, kBytes));
    OK(cudaDeviceSynchronize());
  }
  /// With the block's device current, as launches need it.
  void change(Word more) {
    OK(cudaSetDevice(device));
    add<<<kGrid, kThreads, 0, cudaStreamPerThread>>>(at, more);
    OK(cudaGetLastError());
    value += more;
  }
  /// With the other device current: nothing but the wait orders that.
  void check() const {
    OK(cudaSetDevice(device));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaSetDevice(1 - device));
    std::array<Word, 2> got{};
    OK(cudaMemcpy(&got[0], at + 16 * 5, sizeof(Word), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&got[1], at + kWords - 16, sizeof(Word), cudaMemcpyDeviceToHost));
    EXPECT(got[0] == value);
    EXPECT(got[1] == value);
  }
  void release() {
    OK(cudaFree(at));
    at = nullptr;
  }
};

// Each thread has blocks on both devices. What is done to one is begun with one device current and ended with
// the other.
void switch_devices(unsigned seed, int rounds) {
  constexpr std::size_t kBlocks = 6;
  std::array<Block, kBlocks> blocks;
  unsigned dice = seed * 7919 + 1;
  const auto roll = [&](unsigned sides) {
    dice = dice * 1103515245 + 12345;
    return (dice >> 16) % sides;
  };
  for (std::size_t i = 0; i < kBlocks; ++i)
    blocks[i].make(static_cast<int>(i % 2), static_cast<unsigned char>(seed + i));
  for (int round = 0; round < rounds; ++round) {
    Block& one = blocks[roll(kBlocks)];
    one.change(roll(1000));
    one.check();
    if (roll(4) == 0) {
      one.release();  // while the other device is current
      one.make(static_cast<int>(roll(2)), static_cast<unsigned char>(roll(256)));
    }
  }
  for (Block& block : blocks) {
    block.check();
    block.release();
  }
}

int use_threads() {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(switch_devices, i, 60);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

/// The first device has no context at all.
int use_second_only() {
  std::array<Block, 10> blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].make(1, static_cast<unsigned char>(i));
  for (Word round = 0; round < 3; ++round) {
    for (Block& block : blocks) block.change(round + 1);
  }
  OK(cudaDeviceSynchronize());
  for (Block& block : blocks) {
    Word got = 0;
    OK(cudaMemcpy(&got, block.at + 16, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == block.value);
    block.release();
  }
  return 0;
}

// The second device takes all that there is for it; the first one is none the worse.
int fill_second() {
  Block first;
  first.make(0, 3);
  std::vector<Block> second;
  for (;;) {
    Block next{1, nullptr, 0};
    OK(cudaSetDevice(1));
    const cudaError_t error = cudaMalloc(&next.at, kBytes);
    if (error == cudaErrorMemoryAllocation) break;
    OK(error);
    EXPECT(second.size() < 1000);
    OK(cudaMemset(next.at, static_cast<int>(second.size()) & 0xff, kBytes));
    OK(cudaDeviceSynchronize());
    next.value = value_of(static_cast<unsigned char>(second.size()));
    second.push_back(next);
  }
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  Block more;
  more.make(0, 4);
  more.change(5);
  first.change(6);
  for (Block& block : second) block.change(7);
  first.check();
  more.check();
  for (const Block& block : second) block.check();
  for (Block& block : second) block.release();
  second[0].make(1, 9);
  second[0].check();
  second[0].release();
  more.release();
  first.release();
  std::printf("%d at least\n", static_cast<int>(second.size() >= 4));
  return 0;
}

// The second device has no memory of ours; its streams bring and fetch what the first one has.
int be_guest() {
  Block block;
  block.make(0, 1);
  std::vector<Word> host(kWords, 77);
  OK(cudaSetDevice(1));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMemcpyAsync(block.at, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  block.value = 77;
  block.check();
  block.change(1);
  block.check();
  OK(cudaMemcpyAsync(host.data(), block.at, kBytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(host[16] == 78 && host[1] == 77);
  OK(cudaStreamDestroy(stream));
  block.release();
  return 0;
}

// A child that leaves CUDA alone, and one that asks for memory, which the driver has none of for it.
int fork_between() {
  std::array<Block, 12> blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i].make(static_cast<int>(i % 2), static_cast<unsigned char>(i));
  for (Word round = 0; round < 4; ++round) {
    for (Block& block : blocks) block.change(round);
    const pid_t child = fork();
    if (child == 0) {
      void* at = nullptr;
      std::_Exit(round % 2 == 1 && cudaMalloc(&at, kBytes) == cudaSuccess ? 1 : 0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (Block& block : blocks) {
    block.check();
    block.release();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  int (*run)() = std::strcmp(mode, "threads") == 0  ? use_threads
                 : std::strcmp(mode, "second") == 0 ? use_second_only
                 : std::strcmp(mode, "fill") == 0   ? fill_second
                 : std::strcmp(mode, "fork") == 0   ? fork_between
                 : std::strcmp(mode, "guest") == 0  ? be_guest
                                                    : nullptr;
  EXPECT(run != nullptr);
  const int code = run();
  for (const int device : {0, 1}) {
    if (run == use_second_only && device == 0) continue;
    OK(cudaSetDevice(device));
    OK(cudaDeviceReset());
  }
  std::printf("%s done\n", mode);
  return code;
}
