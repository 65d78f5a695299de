// A program that is linked against a newer driver than Tidepool knows: one of its functions comes in a
// version of which nothing is known (newer_driver.cpp has it), and its calls reach that directly.

#include <cuda.h>

#include <cstdio>

extern "C" int cuMemFree_v9(int a, int b);

int main() {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  const bool works = cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                     cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                     cuMemAlloc(&block, std::size_t{8} << 20) == CUDA_SUCCESS && cuMemFree_v9(40, 2) == 42;
  if (works) std::puts("as expected");
  return works ? 0 : 1;
}
