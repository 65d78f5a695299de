// Batches of copies that name more memory than a small budget has room for. Prints a sum over what they
// copied.
//
//   batch_job WAY ORDER    WAY: 1d (cuMemcpyBatchAsync), 3d (cuMemcpy3DBatchAsync); ORDER: stream, call, any
//                          (of the access to what is copied)

#include <cuda.h>

#include <array>
#include <string_view>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/sim/job.h"

namespace {

using Word = unsigned long long;
constexpr std::size_t kWords = (std::size_t{4} << 20) / sizeof(Word);
constexpr std::size_t kBytes = kWords * sizeof(Word);
constexpr std::size_t kCopies = 8;
constexpr unsigned kThreads = 64;

/// data[i] = i * factor
struct Fill {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* data, Word factor) {
    c.writes(data, kBytes);
    c.phase([&](unsigned tid) {
      for (std::size_t i = c.global_x(tid); i < kWords; i += kThreads) data[i] = i * factor;
    });
  }
};
SIMGPU_KERNEL(fill, Fill, (Word * data, Word factor), data, factor)

CUdeviceptr address_of(const void* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view order_name = argv[2];
  const CUmemcpySrcAccessOrder order = order_name == "any"    ? CU_MEMCPY_SRC_ACCESS_ORDER_ANY
                                       : order_name == "call" ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                                                              : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::array<Word*, kCopies> sources{};
  std::array<Word*, kCopies> targets{};
  for (std::size_t i = 0; i < kCopies; ++i) {
    OK(cudaMalloc(reinterpret_cast<void**>(&sources[i]), kBytes));
    OK(cudaMalloc(reinterpret_cast<void**>(&targets[i]), kBytes));
  }
  for (Word round = 1; round <= 3; ++round) {
    for (std::size_t i = 0; i < kCopies; ++i) {
      fill<<<1, kThreads, 0, stream>>>(sources[i], (i + 1) * round);
      OK(cudaGetLastError());
    }
    // The source is as it shall be when the call is made, as two of the orders ask for.
    OK(cudaStreamSynchronize(stream));
    std::array<CUdeviceptr, kCopies> to{};
    std::array<CUdeviceptr, kCopies> from{};
    std::array<std::size_t, kCopies> sizes{};
    std::array<CUDA_MEMCPY3D_BATCH_OP, kCopies> boxes{};
    for (std::size_t i = 0; i < kCopies; ++i) {
      to[i] = address_of(targets[(i + round) % kCopies]);
      from[i] = address_of(sources[i]);
      sizes[i] = kBytes - 8 * i;
      CUDA_MEMCPY3D_BATCH_OP& box = boxes[i];
      for (CUmemcpy3DOperand* operand : {&box.src, &box.dst}) operand->type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      box.src.op.ptr.ptr = from[i];
      box.dst.op.ptr.ptr = to[i];
      box.extent = {sizes[i], 1, 1};
      box.srcAccessOrder = order;
    }
    // Two groups of attributes, of which the second begins within what is one part.
    std::array<CUmemcpyAttributes, 2> attributes{};
    for (CUmemcpyAttributes& one : attributes) one.srcAccessOrder = order;
    std::array<std::size_t, 2> first{0, 3};
    if (std::string_view(argv[1]) == "3d") {
      OK(cuMemcpy3DBatchAsync(kCopies, boxes.data(), 0, stream));
    } else {
      OK(cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), kCopies, attributes.data(), first.data(), 2,
                            stream));
    }
    OK(cudaStreamSynchronize(stream));
    Word sum = 0;
    for (const Word* target : targets) {
      std::vector<Word> words(kWords);
      OK(cudaMemcpy(words.data(), target, kBytes, cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i + 8 < kWords; ++i) sum = sum * 31 + words[i];
    }
    std::printf("sum %llx\n", sum);
  }
  return 0;
}
