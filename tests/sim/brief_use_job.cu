// What names each block of memory in turn, but uses it only for a while or not at all, so that all of it may
// go on moving: values written by streams, questions, calls that are refused, a node that is given other work
// again and again. Prints sums.
//
//   brief_use_job WAY     see main()

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned;
constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kWords = kBytes / sizeof(Word);
constexpr unsigned kThreads = 64;
constexpr std::size_t kBlocks = 14;
constexpr int kRounds = 3;

/// data[i] = data[i] * 3 + number
struct Step {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data, Word number) {
    c.reads(data, kBytes);
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += kThreads) data[i] = data[i] * 3 + number;
    });
  }
};
SIMGPU_KERNEL(step, Step, (Word * data, Word number), data, number)

CUdeviceptr address_of(const void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

void write_value(cudaStream_t stream, Word* block, Word number) {
  OK(cuStreamWriteValue32(stream, address_of(block + number), number, 0));
  OK(cuStreamWaitValue32(stream, address_of(block + number), number, CU_STREAM_WAIT_VALUE_EQ));
}

void write_batch(cudaStream_t stream, Word* block, Word number) {
  std::array<CUstreamBatchMemOpParams, 2> both{};
  for (unsigned i = 0; i < both.size(); ++i) {
    both[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    both[i].writeValue.address = address_of(block + number + i);
    both[i].writeValue.value = number;
  }
  OK(cuStreamBatchMemOp(stream, both.size(), both.data(), 0));
}

void be_refused(Word* block) {
  unsigned flag = 1;
  int descriptor = 0;
  const CUresult set = cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address_of(block));
  const CUresult handle = cuMemGetHandleForAddressRange(&descriptor, address_of(block), kBytes,
                                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (set == CUDA_SUCCESS || handle == CUDA_SUCCESS) {
    std::fprintf(stderr, "brief_use_job: the device does what it was to refuse\n");
    std::exit(1);
  }
}

void ask(Word* block) {
  for (const CUpointer_attribute attribute :
       {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_P2P_TOKENS}) {
    std::array<unsigned long long, 4> told{};
    const CUresult result = cuPointerGetAttribute(told.data(), attribute, address_of(block));
    if (result != CUDA_ERROR_INVALID_VALUE) OK(result);
  }
}

/// Ids of all blocks, until one is not told: a pair of wrong ones is worse than an error.
void tell_ids(const std::array<Word*, kBlocks>& data) {
  std::array<unsigned long long, kBlocks> ids{};
  for (std::size_t i = 0; i < kBlocks; ++i) {
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void* out = &ids[i];
    const CUresult result = cuPointerGetAttributes(1, &attribute, &out, address_of(data[i]));
    if (result != CUDA_SUCCESS) {
      std::fprintf(stderr, "brief_use_job: id of block %zu: error %d\n", i, static_cast<int>(result));
      return;
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (ids[k] != ids[i]) continue;
      std::fprintf(stderr, "brief_use_job: blocks %zu and %zu have one id\n", k, i);
      std::exit(1);
    }
  }
}

/// An instance with one node, which works on another block at each launch.
class Wanderer {
 public:
  explicit Wanderer(std::string_view kind) : kind_(kind) {}
  void work_on(cudaStream_t stream, Word* block, const Word* from, Word number) {
    block_ = block;
    number_ = number;
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(step);
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(kThreads);
    kernel.kernelParams = arguments_.data();
    cudaMemsetParams fill{};
    fill.dst = block;
    fill.elementSize = 4;
    fill.height = 1;
    fill.value = number;
    fill.width = kWords / 2;
    if (instance_ == nullptr) {
      cudaGraph_t graph = nullptr;
      OK(cudaGraphCreate(&graph, 0));
      if (kind_ == "kernel") OK(cudaGraphAddKernelNode(&node_, graph, nullptr, 0, &kernel));
      if (kind_ == "memset") OK(cudaGraphAddMemsetNode(&node_, graph, nullptr, 0, &fill));
      if (kind_ == "memcpy") {
        OK(cudaGraphAddMemcpyNode1D(&node_, graph, nullptr, 0, block, from, kBytes / 2,
                                    cudaMemcpyDeviceToDevice));
      }
      OK(cudaGraphInstantiate(&instance_, graph, 0));
    } else {
      if (kind_ == "kernel") OK(cudaGraphExecKernelNodeSetParams(instance_, node_, &kernel));
      if (kind_ == "memset") OK(cudaGraphExecMemsetNodeSetParams(instance_, node_, &fill));
      if (kind_ == "memcpy") {
        OK(cudaGraphExecMemcpyNodeSetParams1D(instance_, node_, block, from, kBytes / 2,
                                              cudaMemcpyDeviceToDevice));
      }
    }
    OK(cudaGraphLaunch(instance_, stream));
  }

 private:
  std::string_view kind_;
  cudaGraphExec_t instance_ = nullptr;
  cudaGraphNode_t node_ = nullptr;
  Word* block_ = nullptr;
  Word number_ = 0;
  std::array<void*, 2> arguments_ = {&block_, &number_};
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  std::array<Word*, kBlocks> data{};
  for (Word*& block : data) {
    OK(cudaMalloc(&block, kBytes));
    OK(cudaMemset(block, 1, kBytes));
  }
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  Wanderer wanderer(way);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      Word* const block = data[i];
      const Word number = static_cast<Word>(i) + 1;
      if (way == "value") {
        write_value(stream, block, number);
      } else if (way == "batch") {
        write_batch(stream, block, number);
      } else if (way == "refused") {
        be_refused(block);
      } else if (way == "asked") {
        ask(block);
      } else if (way == "kernel" || way == "memset" || way == "memcpy") {
        wanderer.work_on(stream, block, data[(i + 3) % kBlocks], number);
      } else if (way == "ids") {
        break;
      } else {
        std::fprintf(stderr, "brief_use_job: no way '%s'\n", argc > 1 ? argv[1] : "");
        return 2;
      }
      step<<<1, kThreads, 0, stream>>>(data[(i + 5) % kBlocks], number);
      OK(cudaGetLastError());
    }
  }
  if (way == "ids") return tell_ids(data), 0;
  for (const Word* block : data) tidepool::test::print_sum_of(block, kWords);
  return 0;
}
