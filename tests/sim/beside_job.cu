// Kernels that are given a pointer beside the memory that they use, as correct programs do: arrays that count
// from one, sums that run backwards from the end. Between its uses other memory pushes it out. Prints the
// sums.
//
//   beside_job WAY     where the pointer leads: see main()

#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "simgpu/kernel.h"

namespace {

using Word = unsigned long long;
constexpr long kWords =
    (4L << 20) / static_cast<long>(sizeof(Word));  // whole granules: nothing is left at the end
constexpr unsigned kThreads = 64;
constexpr std::size_t kBlocks = 8;
constexpr int kRounds = 5;

/// data[i] += i + add, for the words from data = from + first.
struct Add {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* from, long first, Word add) {
    c.reads(from + first, kWords * sizeof(Word));
    c.writes(from + first, kWords * sizeof(Word));
    c.phase([&](unsigned tid) {
      for (long i = c.global_x(tid); i < kWords; i += kThreads) from[first + i] += static_cast<Word>(i) + add;
    });
  }
};
SIMGPU_KERNEL(add, Add, (Word * from, long first, Word number), from, first, number)

void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "beside_job: %s: %d\n", what, error);
  std::exit(1);
}
#define OK(call) check(static_cast<int>(call), #call)

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  // The pointer that the kernel gets is the memory's minus this many words.
  long first = 0;
  if (way == "one-based") {
    first = 1;
  } else if (way == "far-in-front") {
    first = (1L << 20) / static_cast<long>(sizeof(Word));
  } else if (way == "backwards") {
    first = -kWords;
  } else if (way == "far-behind") {
    first = -kWords - (1L << 20) / static_cast<long>(sizeof(Word)) + 1;
  } else {
    std::fprintf(stderr, "beside_job: no way '%s'\n", argc > 1 ? argv[1] : "");
    return 2;
  }
  std::array<Word*, kBlocks> data{};
  for (Word*& block : data) {
    OK(cudaMalloc(&block, kWords * sizeof(Word)));
    OK(cudaMemset(block, 0, kWords * sizeof(Word)));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) add<<<1, kThreads>>>(data[i] - first, first, i + 1);
    OK(cudaGetLastError());
  }
  for (const Word* block : data) {
    static Word host[kWords];
    OK(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost));
    Word sum = 0;
    for (const Word word : host) sum = sum * 31 + word;
    std::printf("%llx\n", sum);
  }
  return 0;
}
