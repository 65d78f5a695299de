#pragma once

// What allocates through the CUDA runtime by ELF symbols, as nvcc links it: a program, and libraries under
// several names, against different runtimes and once against none.

#include <cstddef>

extern "C" {
struct PitchedPtr {
  void* at;
  std::size_t pitch, width, height;
};
struct Extent {
  std::size_t width, height, depth;
};
int cudaMalloc(void** out, std::size_t size);
int cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height);
int cudaMalloc3D(PitchedPtr* out, Extent extent);
int cudaMallocManaged(void** out, std::size_t size, unsigned flags);
int cudaMallocAsync(void** out, std::size_t size, void* stream);
int cudaMallocAsync_ptsz(void** out, std::size_t size, void* stream);
int cudaMallocFromPoolAsync(void** out, std::size_t size, void* pool, void* stream);
int cudaMallocFromPoolAsync_ptsz(void** out, std::size_t size, void* pool, void* stream);
int cudaFree(void* at);
int cudaFreeAsync(void* at, void* stream);
int cudaFreeAsync_ptsz(void* at, void* stream);

// A library is asked for these by dlsym.
#ifdef TP_TEST_PROGRAM
#define USER static
#else
#define USER __attribute__((visibility("default")))
#endif

/// Allocates `size` bytes by the function with this number; -1: there is none.
USER int tp_test_user_alloc(int which, void** out, std::size_t size, void* stream) {
  std::size_t pitch = 0;
  PitchedPtr pitched{};
  int result = -1;
  switch (which) {
    case 0:
      return cudaMalloc(out, size);
    case 1:
      result = cudaMallocPitch(out, &pitch, size / 4, 4);
      return pitch < size / 4 ? -2 : result;
    case 2:
      result = cudaMalloc3D(&pitched, {size / 6, 2, 3});
      *out = pitched.at;
      return pitched.pitch != size / 6 || pitched.height != 2 ? -2 : result;
    case 3:
      return cudaMallocManaged(out, size, 1);
    case 4:
      return cudaMallocAsync(out, size, stream);
    case 5:
      return cudaMallocAsync_ptsz(out, size, stream);
    case 6:
      return cudaMallocFromPoolAsync(out, size, out, stream);
    case 7:
      return cudaMallocFromPoolAsync_ptsz(out, size, out, stream);
    default:
      return -1;
  }
}

USER int tp_test_user_free(int which, void* at, void* stream) {
  switch (which) {
    case 0:
      return cudaFree(at);
    case 1:
      return cudaFreeAsync(at, stream);
    case 2:
      return cudaFreeAsync_ptsz(at, stream);
    default:
      return -1;
  }
}
}
