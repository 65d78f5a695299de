// Walks over more memory than it may hold, a block a launch, so that each launch has one block come in and
// another leave. Prints how many words were wrong.
//
//   ping_pong <blocks> <MiB each> <rounds>

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "simgpu/kernel.h"

namespace {

using Word = unsigned long long;

// One word in each 64 KiB: as if the whole block were read and written, which is what takes the time.
struct Bump {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* block, std::size_t words, Word expect, Word* errors) {
    c.reads(block, words * sizeof(Word));
    c.writes(block, words * sizeof(Word));
    c.writes(errors, sizeof(Word));
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid) * 8192; i < words;
           i += c.block_threads() * c.grid_dim().x * 8192) {
        if (block[i] != expect) c.atomic_add(errors, Word{1});
        block[i] = expect + 1;
      }
    });
  }
};
SIMGPU_KERNEL(bump, Bump, (Word * block, std::size_t words, Word expect, Word* errors), block, words, expect,
              errors)

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "ping_pong: %s failed: %s\n", what, cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: ping_pong BLOCKS MIB ROUNDS\n", stderr);
    return 2;
  }
  const std::size_t count = std::strtoul(argv[1], nullptr, 10);
  const std::size_t bytes = std::strtoul(argv[2], nullptr, 10) << 20;
  const Word rounds = std::strtoul(argv[3], nullptr, 10);
  Word* errors = nullptr;
  check(cudaMalloc(&errors, sizeof(Word)), "cudaMalloc");
  check(cudaMemset(errors, 0, sizeof(Word)), "cudaMemset");
  std::vector<Word*> blocks(count);
  for (Word*& block : blocks) {
    check(cudaMalloc(&block, bytes), "cudaMalloc");
    check(cudaMemset(block, 0, bytes), "cudaMemset");
  }
  for (Word round = 0; round < rounds; ++round) {
    for (Word* block : blocks) bump<<<8, 32>>>(block, bytes / sizeof(Word), round, errors);
  }
  Word wrong = 0;
  check(cudaMemcpy(&wrong, errors, sizeof wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::printf("wrong %llu\n", wrong);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
