// Host code that writes into new device memory. With an argument the program has a handler for that.

#include <cuda_runtime.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace {

void own_handler(int) {
  constexpr char kText[] = "own handler\n";
  _exit(write(STDERR_FILENO, kText, sizeof kText - 1) < 0 ? 1 : 5);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) std::signal(SIGSEGV, &own_handler);
  volatile int* memory = nullptr;
  const cudaError_t error = cudaMalloc(const_cast<int**>(&memory), sizeof *memory);
  std::printf("%s\n", cudaGetErrorName(error));
  std::fflush(stdout);
  if (error == cudaSuccess) *memory = 1;
  return 0;
}
