// Graphs beside other memory: one that a stream captured, one made of nodes, instances that are given other
// work later. Launched between kernels that push everything else around. Prints a sum over all blocks.
//
//   graph_job <rounds>           the above
//   graph_job <rounds> captures  a step of launches, then a graph of them that is captured, launched and
//                                dropped, as programs do that capture again whenever a shape changes
//   graph_job <rounds> again     memory that a graph names is freed and asked for again; the graph is made
//                                anew only where the address is another one

#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{4} << 20) / sizeof(Word);
constexpr std::size_t kBytes = kWords * sizeof(Word);
constexpr unsigned kBlocks = 8;
constexpr unsigned kThreads = 64;

/// out[i] = out[i] * 3 + in[i] + more, at words that are read by the sum.
struct Mix {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* in, Word* out, Word more) {
    c.reads(in, kBytes);
    c.reads(out, kBytes);
    c.writes(out, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid) * 16; i < kWords; i += std::size_t{kBlocks} * kThreads * 16) {
        out[i] = out[i] * 3 + in[i] + more;
      }
    });
  }
};
SIMGPU_KERNEL(mix, Mix, (const Word* in, Word* out, Word more), in, out, more)

Word* block() {
  Word* at = nullptr;
  OK(cudaMalloc(&at, kBytes));
  OK(cudaMemset(at, 1, kBytes));
  return at;
}

void launch(cudaStream_t stream, const Word* in, Word* out, Word more) {
  mix<<<kBlocks, kThreads, 0, stream>>>(in, out, more);
  OK(cudaGetLastError());
}

/// Arguments of a kernel node, with what keeps them alive.
struct Node {
  const Word* in;
  Word* out;
  Word more;
  std::array<void*, 3> arguments{};
  cudaKernelNodeParams params{};
  Node(const Word* from, Word* to, Word number) : in(from), out(to), more(number) {
    arguments = {&in, &out, &more};
    params.func = reinterpret_cast<void*>(mix);
    params.gridDim = dim3(kBlocks);
    params.blockDim = dim3(kThreads);
    params.kernelParams = arguments.data();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
};

void print_sum(const std::vector<Word*>& blocks) {
  Word sum = 0;
  std::vector<Word> host(kWords);
  for (Word* at : blocks) {
    OK(cudaMemcpy(host.data(), at, kBytes, cudaMemcpyDeviceToHost));
    for (const Word word : host) sum = sum * 31 + word;
    OK(cudaFree(at));
  }
  std::printf("sum %llx\n", sum);
}

int run_captures(int rounds) {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<Word*> all;
  for (int i = 0; i < 8; ++i) all.push_back(block());
  OK(cudaDeviceSynchronize());
  const auto step = [&] {
    for (std::size_t i = 0; i + 1 < all.size(); ++i) launch(stream, all[i], all[i + 1], i);
  };
  for (int round = 0; round < rounds; ++round) {
    step();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    step();
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&instance, graph, 0));
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(graph));
  }
  OK(cudaDeviceSynchronize());
  print_sum(all);
  return 0;
}

int run_again(int rounds) {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<Word*> all;
  for (int i = 0; i < 12; ++i) all.push_back(block());
  cudaGraphExec_t instance = nullptr;
  const Word* made_for = nullptr;
  int made = 0;
  for (int round = 0; round < rounds; ++round) {
    OK(cudaFree(all[0]));
    all[0] = block();
    OK(cudaDeviceSynchronize());
    if (all[0] != made_for) {
      if (instance != nullptr) OK(cudaGraphExecDestroy(instance));
      cudaGraph_t graph = nullptr;
      OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      launch(stream, all[1], all[0], 5);
      OK(cudaStreamEndCapture(stream, &graph));
      OK(cudaGraphInstantiate(&instance, graph, 0));
      OK(cudaGraphDestroy(graph));
      made_for = all[0];
      ++made;
    }
    for (int i = 0; i < 3; ++i) {
      OK(cudaGraphLaunch(instance, stream));
      for (std::size_t k = 2; k < all.size(); ++k) launch(stream, all[k - 1], all[k], k);
    }
  }
  OK(cudaDeviceSynchronize());
  OK(cudaGraphExecDestroy(instance));
  std::fprintf(stderr, "graph_job: made %d times\n", made);
  print_sum(all);
  return 0;
}

/// With an instance that names 12 MiB, work on 8 MiB more is captured: a launch, then a copy of a table.
/// Prints how the calls and the captures end; beside them another stream is captured.
int run_refused() {
  cudaStream_t stream = nullptr;
  cudaStream_t beside = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  std::vector<Word*> all;
  for (int i = 0; i < 5; ++i) all.push_back(block());
  Word* table = nullptr;
  OK(cudaMalloc(&table, 64));
  const std::array<Word*, 2> entries = {all[3], all[4]};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch(stream, all[0], all[1], 1);
  launch(stream, all[1], all[2], 1);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&instance, graph, 0));
  for (const bool is_copy : {false, true}) {
    cudaGraph_t other = nullptr;
    OK(cudaStreamBeginCapture(beside, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(beside, all[0], all[1], 1);
    int refused = 0;
    if (is_copy) {
      refused = cudaMemcpyAsync(table, entries.data(), sizeof entries, cudaMemcpyHostToDevice, stream);
    } else {
      mix<<<kBlocks, kThreads, 0, stream>>>(all[3], all[4], 1);
      refused = cudaGetLastError();
    }
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    OK(cudaStreamIsCapturing(stream, &status));
    const int ended = cudaStreamEndCapture(stream, &graph);
    (void)cudaGetLastError();
    std::size_t nodes = 0;
    OK(cudaStreamEndCapture(beside, &other));
    OK(cudaGraphGetNodes(other, nullptr, &nodes));
    std::printf("call %d status %d end %d graph %s beside %zu\n", refused, static_cast<int>(status), ended,
                graph != nullptr ? "yes" : "no", nodes);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  if (argc > 2 && argv[2][0] == 'r') return run_refused();
  if (argc > 2) return argv[2][0] == 'a' ? run_again(rounds) : run_captures(rounds);
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  std::vector<Word*> all;
  for (int i = 0; i < 16; ++i) all.push_back(block());
  // 0-3 are the graphs', 4 is what an instance is changed to, the rest is moved around.
  OK(cudaDeviceSynchronize());

  cudaGraph_t captured = nullptr;
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch(stream, all[0], all[1], 5);
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(other, fork, 0));  // the other stream is captured too from here on
  launch(other, all[1], all[2], 7);
  OK(cudaEventRecord(join, other));
  OK(cudaStreamWaitEvent(stream, join, 0));
  OK(cudaMemcpyAsync(all[0], all[2], kBytes, cudaMemcpyDeviceToDevice, stream));
  OK(cudaStreamEndCapture(stream, &captured));
  cudaGraphExec_t first = nullptr;
  OK(cudaGraphInstantiate(&first, captured, 0));

  cudaGraph_t made = nullptr;
  OK(cudaGraphCreate(&made, 0));
  cudaGraphNode_t memset = nullptr;
  cudaMemsetParams clear{};
  clear.dst = all[3];
  clear.value = 9;
  clear.elementSize = 4;
  clear.width = kBytes / 4;
  clear.height = 1;
  OK(cudaGraphAddMemsetNode(&memset, made, nullptr, 0, &clear));
  Node before(all[0], all[3], 11);
  cudaGraphNode_t kernel = nullptr;
  OK(cudaGraphAddKernelNode(&kernel, made, &memset, 1, &before.params));
  cudaGraphNode_t child = nullptr;
  OK(cudaGraphAddChildGraphNode(&child, made, &kernel, 1, captured));
  cudaGraphExec_t second = nullptr;
  OK(cudaGraphInstantiate(&second, made, 0));

  Node after(all[3], all[4], 13);
  for (int round = 0; round < rounds; ++round) {
    OK(cudaGraphLaunch(first, stream));
    for (std::size_t i = 5; i + 1 < all.size(); ++i)
      launch(stream, all[i], all[i + 1], static_cast<Word>(round));
    OK(cudaGraphLaunch(second, stream));
    OK(cudaStreamSynchronize(stream));
    for (std::size_t i = all.size() - 1; i > 5; --i) launch(other, all[i], all[i - 1], 3);
    OK(cudaDeviceSynchronize());
    // From the second round on the instance works on another block.
    OK(cudaGraphExecKernelNodeSetParams(second, kernel, &after.params));
  }
  OK(cudaGraphExecDestroy(first));
  OK(cudaGraphExecDestroy(second));
  OK(cudaGraphDestroy(captured));
  OK(cudaGraphDestroy(made));

  print_sum(all);
  return 0;
}
