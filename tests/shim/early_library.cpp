// A library that uses CUDA in its constructor, which runs before the constructor of a preloaded library.

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

std::size_t g_total = 0;
bool g_hooked = false;
CUdeviceptr g_block = 0;
bool g_at_exit = false;

template <class F>
F* find(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) std::abort();
  return reinterpret_cast<F*>(dlsym(driver, name));
}
#define DRIVER(name) find<decltype(name)>(#name)

__attribute__((constructor)) void on_load() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(DRIVER(cuMemAlloc_v2)), &info) == 0) std::abort();
  g_hooked = std::strstr(info.dli_fname, "libtidepool") != nullptr;
  CUcontext context = nullptr;
  std::size_t free = 0;
  if (DRIVER(cuInit)(0) != CUDA_SUCCESS || DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS ||
      DRIVER(cuCtxSetCurrent)(context) != CUDA_SUCCESS ||
      DRIVER(cuMemAlloc_v2)(&g_block, std::size_t{8} << 20) != CUDA_SUCCESS ||
      DRIVER(cuMemGetInfo_v2)(&free, &g_total) != CUDA_SUCCESS) {
    std::abort();
  }
}

__attribute__((destructor)) void on_exit() {
  if (g_at_exit && DRIVER(cuMemFree_v2)(g_block) != CUDA_SUCCESS) _exit(3);
}

}  // namespace

extern "C" {
/// What cuMemGetInfo said in the constructor.
__attribute__((visibility("default"))) std::size_t tp_test_early_total() {
  return g_total;
}
/// Whether dlsym led to a hook there.
__attribute__((visibility("default"))) bool tp_test_early_hooked() {
  return g_hooked;
}
/// Uses the memory in other contexts, and leaves the free to the destructor, which runs after those of a
/// preloaded library.
__attribute__((visibility("default"))) void tp_test_early_leave_to_exit() {
  CUcontext primary = nullptr;
  if (DRIVER(cuCtxGetCurrent)(&primary) != CUDA_SUCCESS) std::abort();
  for (int i = 0; i < 3; ++i) {
    CUcontext other = nullptr;
    CUstream stream = nullptr;
    if (DRIVER(cuCtxCreate_v4)(&other, nullptr, 0, 0) != CUDA_SUCCESS ||
        DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        DRIVER(cuMemsetD8Async)(g_block, 2, 4096, stream) != CUDA_SUCCESS ||
        DRIVER(cuCtxSynchronize)() != CUDA_SUCCESS) {
      std::abort();
    }
  }
  if (DRIVER(cuCtxSetCurrent)(primary) != CUDA_SUCCESS) std::abort();
  g_at_exit = true;
}
/// Frees what the constructor allocated.
__attribute__((visibility("default"))) int tp_test_early_free() {
  return DRIVER(cuMemFree_v2)(g_block);
}
}
