// Copies whose bytes are looked at: for fault plans, which make single ones arrive wrong. Prints the error of
// the first call that fails, or of each copy what arrived.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;
constexpr std::size_t kPage = 4096;

bool failed(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return false;
  std::printf("%s: %s\n", call, cudaGetErrorName(error));
  return true;
}
#define TRY(call) \
  if (failed(call, #call)) return 3

/// "aaaaXaaa…": for each page the letter that its bytes are, '?' where they differ.
void print_pages(const char* what, const std::vector<unsigned char>& bytes) {
  std::printf("%s ", what);
  for (std::size_t page = 0; page < kBytes; page += kPage) {
    bool same = true;
    for (std::size_t i = 1; i < kPage; ++i) same = same && bytes[page + i] == bytes[page];
    const unsigned char first = bytes[page];
    const bool inverted = first >= 0x80;
    const auto letter = static_cast<char>(inverted ? ~first & 0xff : first);
    std::putchar(!same ? '?' : first == 0 ? '0' : inverted ? letter - 32 : letter);
  }
  std::putchar('\n');
}

/// Microseconds of a copy each way, on the device's clock.
int print_times() {
  constexpr std::size_t kLarge = std::size_t{16} << 20;
  unsigned char *device = nullptr, *host = nullptr;
  TRY(cudaMalloc(&device, kLarge));
  TRY(cudaMallocHost(&host, kLarge));
  cudaEvent_t start = nullptr, end = nullptr;
  TRY(cudaEventCreate(&start));
  TRY(cudaEventCreate(&end));
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost}) {
    const bool in = kind == cudaMemcpyHostToDevice;
    TRY(cudaEventRecord(start));
    TRY(cudaMemcpyAsync(in ? device : host, in ? host : device, kLarge, kind));
    TRY(cudaEventRecord(end));
    TRY(cudaEventSynchronize(end));
    float milliseconds = 0;
    TRY(cudaEventElapsedTime(&milliseconds, start, end));
    std::printf("%ld\n", static_cast<long>(milliseconds * 1000));
  }
  return 0;
}

}  // namespace

/// Three rounds: the letter of the round goes in by one copy, to a second buffer and out by another. With an
/// argument: times.
int main(int argc, char**) {
  if (argc > 1) return print_times();
  unsigned char *a = nullptr, *b = nullptr;
  TRY(cudaMalloc(&a, kBytes));
  TRY(cudaMalloc(&b, kBytes));
  TRY(cudaMemset(a, 'z', kBytes));
  TRY(cudaMemset(b, 'y', kBytes));
  TRY(cudaDeviceSynchronize());
  std::vector<unsigned char> bytes(kBytes);
  for (const char letter : {'a', 'b', 'c'}) {
    std::memset(bytes.data(), letter, kBytes);
    TRY(cudaMemcpy(a, bytes.data(), kBytes, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy2D(b, kPage, a, kPage, kPage, kBytes / kPage, cudaMemcpyDeviceToDevice));
    std::memset(bytes.data(), 'x', kBytes);
    TRY(cudaMemcpy(bytes.data(), b, kBytes, cudaMemcpyDeviceToHost));
    print_pages("round", bytes);
  }
  TRY(cudaFree(a));
  TRY(cudaFree(b));
  std::puts("done");
  return 0;
}
