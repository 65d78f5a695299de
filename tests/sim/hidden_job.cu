// A kernel that finds memory by an address that none of its arguments has: in a table in device memory, and
// there not even as it is. Prints a sum over that memory.
//
//   hidden_job           the kernel is launched
//   hidden_job on_host   the table and the sum are in host memory, so that it names no memory of the device
//   at all hidden_job graph     it is in a graph, and another kernel is launched behind that hidden_job late
//   nothing is hidden: kernels and a graph wait for what the host does after their launch

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

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

template <class Enqueue>
cudaGraphExec_t graph_of(cudaStream_t stream, Enqueue enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  enqueue();
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&made, graph, 0));
  OK(cudaGraphDestroy(graph));
  return made;
}

cudaStream_t make_stream() {
  cudaStream_t made = nullptr;
  OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

void follow_in_graph(const Word* table, Word* sum) {
  const cudaStream_t stream = make_stream();
  Word* other = nullptr;
  OK(cudaMalloc(&other, kBytes));
  OK(cudaDeviceSynchronize());
  const cudaGraphExec_t graph = graph_of(stream, [&] { follow<<<1, 64, 0, stream>>>(table, sum); });
  OK(cudaGraphLaunch(graph, stream));
  count<<<1, 64, 0, stream>>>(other);
  OK(cudaGetLastError());
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(graph));
  OK(cudaFree(other));
}

int be_late() {
  Word* blocks[3] = {};
  for (Word*& block : blocks) OK(cudaMalloc(&block, kBytes));
  unsigned* flag = nullptr;
  OK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocDefault));
  *flag = 0;
  const cudaStream_t stream = make_stream();
  const cudaGraphExec_t graph = graph_of(stream, [&] { count<<<1, 64, 0, stream>>>(blocks[0]); });
  OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_GEQ));
  count<<<1, 64, 0, stream>>>(blocks[1]);
  OK(cudaGraphLaunch(graph, stream));
  count<<<1, 64, 0, stream>>>(blocks[2]);
  OK(cudaGetLastError());
  __atomic_store_n(flag, 1U, __ATOMIC_SEQ_CST);
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(graph));
  for (Word* block : blocks) {
    Word last = 0;
    OK(cudaMemcpy(&last, block + (kWords - 1), sizeof last, cudaMemcpyDeviceToHost));
    std::printf("last %llu\n", last);
    OK(cudaFree(block));
  }
  OK(cudaStreamDestroy(stream));
  OK(cudaFreeHost(flag));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  if (way == "late") return be_late();
  const bool on_host = way == "on_host";
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
  if (way == "graph") {
    follow_in_graph(table, sum);
  } else {
    follow<<<1, 64>>>(table, sum);
  }
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
