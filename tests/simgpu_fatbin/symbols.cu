// Variables of device code through the runtime: CUDA Runtime API, "Memory Management", cudaGetSymbolAddress
// and cudaMemcpyToSymbol and their kin. Exit status 0 if all is as promised.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

__device__ int counter = 7;
__constant__ float table[4] = {1, 2, 3, 4};
template <class T>
__device__ T of_template = T(5);
__managed__ int shared_count[2] = {4, 5};

__global__ void use(float* out) {
  *out = table[counter] + static_cast<float>(of_template<int> + shared_count[1]);
}

void expect(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "line %d: %s\n", line, what);
  std::exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define RESULT(call, want) expect((call) == (want), #call, __LINE__)
#define OK(call) RESULT(call, cudaSuccess)

int counter_now() {
  int value = 0;
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  return value;
}

void check_managed() {
  EXPECT(shared_count[0] == 4 && shared_count[1] == 5);
  shared_count[1] = 6;
  int values[2] = {};
  OK(cudaMemcpyFromSymbol(values, shared_count, sizeof values));
  EXPECT(values[0] == 4 && values[1] == 6);
  void* address = nullptr;
  OK(cudaGetSymbolAddress(&address, shared_count));
  EXPECT(address == shared_count);
  const cudaMemLocation host = {cudaMemLocationTypeHost, {0}};
  OK(cudaMemAdvise(shared_count, sizeof shared_count, cudaMemAdviseSetPreferredLocation, host));
  RESULT(cudaFree(shared_count), cudaErrorInvalidValue);
  RESULT(cudaFreeHost(shared_count), cudaErrorInvalidValue);
  EXPECT(shared_count[1] == 6);
}

}  // namespace

int main() {
  check_managed();
  EXPECT(counter_now() == 7);
  const int nine = 9;
  OK(cudaMemcpyToSymbol(counter, &nine, sizeof nine));
  EXPECT(counter_now() == 9);

  float values[4] = {};
  OK(cudaMemcpyFromSymbol(values, table, sizeof values));
  EXPECT(values[0] == 1 && values[3] == 4);
  const float six = 6;
  OK(cudaMemcpyToSymbol(table, &six, sizeof six, 2 * sizeof(float), cudaMemcpyHostToDevice));
  OK(cudaMemcpyFromSymbol(values, table, 2 * sizeof(float), sizeof(float), cudaMemcpyDeviceToHost));
  EXPECT(values[0] == 2 && values[1] == 6);

  void* address = nullptr;
  std::size_t bytes = 0;
  OK(cudaGetSymbolAddress(&address, table));
  OK(cudaGetSymbolSize(&bytes, table));
  EXPECT(bytes == 16);
  OK(cudaMemcpy(values, address, sizeof values, cudaMemcpyDeviceToHost));
  EXPECT(values[2] == 6);
  int of = 0;
  OK(cudaMemcpyFromSymbol(&of, of_template<int>, sizeof of));
  EXPECT(of == 5);

  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  int* pinned = nullptr;
  OK(cudaMallocHost(&pinned, 2 * sizeof(int)));
  pinned[0] = 11;
  OK(cudaMemcpyToSymbolAsync(counter, pinned, sizeof(int), 0, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyFromSymbolAsync(pinned + 1, counter, sizeof(int), 0, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(pinned[1] == 11);

  RESULT(cudaMemcpyToSymbol(counter, &nine, 8), cudaErrorInvalidValue);
  RESULT(cudaMemcpyToSymbol(counter, &nine, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  RESULT(cudaGetSymbolAddress(&address, static_cast<const void*>(&nine)), cudaErrorInvalidSymbol);

  cudaFuncAttributes attributes{};
  OK(cudaFuncGetAttributes(&attributes, use));
  EXPECT(attributes.constSizeBytes == 16 && attributes.numRegs > 0 && attributes.binaryVersion >= 75);

  OK(cudaDeviceReset());
  EXPECT(counter_now() == 7);
  // Not a device's: it lives as long as the program.
  EXPECT(shared_count[1] == 6);
  std::puts("symbols: ok");
  return 0;
}
