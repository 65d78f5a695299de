// Many streams that keep a little memory each, and one block that is large.
//
//   small_blocks_job STREAMS MIB

#include <vector>

#include "tests/sim/job.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int streams = std::atoi(argv[1]);
  const std::size_t large = static_cast<std::size_t>(std::atoi(argv[2])) << 20;
  constexpr std::size_t kSmall = 4096;
  std::vector<cudaStream_t> of(static_cast<std::size_t>(streams));
  std::vector<unsigned char*> small(of.size());
  for (std::size_t i = 0; i < of.size(); ++i) {
    OK(cudaStreamCreateWithFlags(&of[i], cudaStreamNonBlocking));
    OK(cudaMallocAsync(reinterpret_cast<void**>(&small[i]), kSmall, of[i]));
    OK(cudaMemsetAsync(small[i], static_cast<int>(i + 1), kSmall, of[i]));
  }
  void* at = nullptr;
  OK(cudaMallocAsync(&at, large, of[0]));
  OK(cudaMemsetAsync(at, 7, large, of[0]));
  OK(cudaDeviceSynchronize());
  unsigned long sum = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    std::vector<unsigned char> bytes(kSmall);
    OK(cudaMemcpyAsync(bytes.data(), small[i], kSmall, cudaMemcpyDeviceToHost, of[i]));
    OK(cudaFreeAsync(small[i], of[i]));
    OK(cudaStreamSynchronize(of[i]));
    for (const unsigned char byte : bytes) sum += byte * (i + 1);
  }
  std::printf("sum %lu\n", sum);
  return 0;
}
