// A program with the static CUDA run time that looks at no error. simgpu cannot run it and must say so.

#include <cuda_runtime.h>

int main() {
  void* memory = nullptr;
  static_cast<void>(cudaMalloc(&memory, 1 << 20));
  static_cast<void>(cudaFree(memory));
  return 0;
}
