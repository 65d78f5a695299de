// What programs of the CUDA runtime ask first. Linked to the vendor's runtime.

#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::printf("%s\n", cudaGetErrorName(error));
  return 0;
}
