// A kernel that finds memory by an address that none of its arguments has: in a table in device memory, and
// there not even as it is. Prints a sum over that memory. With an argument the table and the sum are in host
// memory, so that the kernel names no memory of the device at all.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{7422} << 10) / sizeof(Word);  // no whole number of pages
constexpr std::size_t kBytes = kWords * sizeof(Word);
constexpr Word kVeil = 0x5a5a5a5a5a5a5a5a;

/// data[i] = i + 1
struct Count {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data) {
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += 64) data[i] = i + 1;
    });
  }
};
SIMGPU_KERNEL(count, Count, (Word * data), data)

/// sum[0] += all words of the memory that the table leads to.
struct Follow {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* table, Word* sum) {
    c.reads(table, sizeof(Word));
    c.phase([&](unsigned tid) {
      if (c.global_x(tid) != 0) return;
      const Word* data = reinterpret_cast<const Word*>(table[0] ^ kVeil);
      c.reads(data, kBytes);
      Word total = sum[0];
      for (std::size_t i = 0; i < kWords; ++i) total += data[i];
      sum[0] = total;
    });
    c.writes(sum, sizeof(Word));
  }
};
SIMGPU_KERNEL(follow, Follow, (const Word* table, Word* sum), table, sum)

// What a kernel finds at the same address in host memory.
cudaError_t allocate(Word** at, bool on_host) {
  return on_host ? cudaHostAlloc(at, sizeof(Word), cudaHostAllocDefault) : cudaMalloc(at, sizeof(Word));
}

}  // namespace

int main(int argc, char**) {
  const bool on_host = argc > 1;
  Word* data = nullptr;
  Word* table = nullptr;
  Word* sum = nullptr;
  OK(cudaMalloc(&data, kBytes));
  OK(allocate(&table, on_host));
  OK(allocate(&sum, on_host));
  OK(cudaMemset(sum, 0, sizeof(Word)));
  const Word veiled = reinterpret_cast<Word>(data) ^ kVeil;
  OK(cudaMemcpy(table, &veiled, sizeof veiled, cudaMemcpyDefault));
  count<<<1, 64>>>(data);
  follow<<<1, 64>>>(table, sum);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  Word total = 0;
  OK(cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDefault));
  std::printf("sum %llu\n", total);
  OK(on_host ? cudaFreeHost(sum) : cudaFree(sum));
  OK(on_host ? cudaFreeHost(table) : cudaFree(table));
  OK(cudaFree(data));
  return 0;
}
