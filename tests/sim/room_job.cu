// A program that has filled the device with memory that can leave when the driver needs 48 MiB for a module
// of it, which is loaded when it is first needed (CUDA programming guide, lazy loading): by one call or
// another.
//
//   room_job WORD

#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/sim/job.h"

namespace {

constexpr int kBlocks = 8;
constexpr std::size_t kBlock = std::size_t{8} << 20;

__device__ char in_module[48 << 20];
#ifdef TP_TEST_MANAGED
__managed__ char in_managed_module[1 << 20];
#endif

__global__ void mix(char* to, const char* from) {
  to[threadIdx.x] = static_cast<char>(in_module[threadIdx.x] + from[threadIdx.x]);
}

struct Job {
  char* blocks[kBlocks];
  cudaStream_t stream;

  Job() {
    OK(cudaStreamCreate(&stream));
    for (char*& block : blocks) {
      OK(cudaMalloc(&block, kBlock));
      OK(cudaMemset(block, 1, kBlock));
    }
    OK(cudaDeviceSynchronize());
  }

  void launch() const {
    mix<<<1, 32, 0, stream>>>(blocks[0], blocks[1]);
    OK(cudaGetLastError());
  }
  void run(cudaGraph_t graph) const {
    cudaGraphExec_t instance = nullptr;
    OK(cudaGraphInstantiate(&instance, graph, 0));
    for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(graph));
  }
  void capture(cudaStreamCaptureMode mode) const {
    cudaGraph_t graph = nullptr;
    OK(cudaStreamBeginCapture(stream, mode));
    OK(cudaMemsetAsync(blocks[2], 2, kBlock, stream));
    launch();
    OK(cudaMemcpyAsync(blocks[3], blocks[0], kBlock, cudaMemcpyDeviceToDevice, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    run(graph);
  }
  void add_node(bool as_any) const {
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node = nullptr;
    OK(cudaGraphCreate(&graph, 0));
    const void* values[] = {&blocks[0], &blocks[1]};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(&mix);
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = const_cast<void**>(values);
    if (as_any) {
      cudaGraphNodeParams any{};
      any.type = cudaGraphNodeTypeKernel;
      any.kernel.func = kernel.func;
      any.kernel.gridDim = kernel.gridDim;
      any.kernel.blockDim = kernel.blockDim;
      any.kernel.kernelParams = kernel.kernelParams;
      OK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &any));
    } else {
      OK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    }
    run(graph);
  }

  bool use(std::string_view word) const {
    const char bytes[64] = {1};
    void* at = nullptr;
    cudaFunction_t function = nullptr;
    cudaFuncAttributes attributes{};
    int count = 0;
    if (word == "launch") {
      launch();
    } else if (word == "to-symbol") {
      OK(cudaMemcpyToSymbol(in_module, bytes, sizeof bytes));
    } else if (word == "symbol-address") {
      OK(cudaGetSymbolAddress(&at, in_module));
#ifdef TP_TEST_MANAGED
    } else if (word == "managed-address") {
      OK(cudaGetSymbolAddress(&at, in_managed_module));
#endif
    } else if (word == "function") {
      OK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&mix)));
    } else if (word == "attributes") {
      OK(cudaFuncGetAttributes(&attributes, mix));
    } else if (word == "set-attribute") {
      OK(cudaFuncSetAttribute(mix, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
    } else if (word == "occupancy") {
      OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, mix, 256, 0));
    } else if (word == "capture") {
      capture(cudaStreamCaptureModeGlobal);
    } else if (word == "capture-thread") {
      capture(cudaStreamCaptureModeThreadLocal);
    } else if (word == "capture-relaxed") {
      capture(cudaStreamCaptureModeRelaxed);
    } else if (word == "node" || word == "any-node") {
      add_node(word == "any-node");
    } else {
      return false;
    }
    return true;
  }

  [[nodiscard]] unsigned sum() const {
    unsigned sum = 0;
    for (const char* block : blocks) {
      unsigned char byte = 0;
      OK(cudaMemcpy(&byte, block + 100, 1, cudaMemcpyDeviceToHost));
      sum = sum * 31 + byte;
    }
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const Job job;
  if (argc != 2 || !job.use(argv[1])) return 2;
  OK(cudaStreamSynchronize(job.stream));
  std::printf("%s %08x\n", argv[1], job.sum());
  job.launch();
  OK(cudaStreamSynchronize(job.stream));
  std::printf("%08x\n", job.sum());
}
