// A CUDA runtime, built as two versions of libcudart: each allocates through the driver and notes who called
// it.

#include "tests/shim/runtime/fake_runtime.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

namespace {

tidepool::test::RuntimeCall g_last{};
void (*g_inside)() = nullptr;

template <class F>
F* find(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(driver, name));
}

void note(const char* name, const void* caller) {
  Dl_info info{};
  g_last = {};
  std::strncpy(g_last.name, name, sizeof g_last.name - 1);
  if (dladdr(caller, &info) != 0) std::strncpy(g_last.caller, info.dli_fname, sizeof g_last.caller - 1);
}
#define NOTE(name) note(name, __builtin_return_address(0))

int allocate(void** out, std::size_t size) {
  if (g_inside != nullptr) g_inside();
  if (size > tidepool::test::kTooMuch) return 2;  // without a call of the driver
  CUdeviceptr at = 0;
  const CUresult result = find<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2")(&at, size);
  std::memcpy(out, &at, sizeof at);
  return static_cast<int>(result);
}

struct PitchedPtr {
  void* at;
  std::size_t pitch, width, height;
};
struct Extent {
  std::size_t width, height, depth;
};

int release(void* at) {
  CUdeviceptr address = 0;
  std::memcpy(&address, &at, sizeof at);
  return static_cast<int>(find<decltype(cuMemFree_v2)>("cuMemFree_v2")(address));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT tidepool::test::RuntimeCall tp_test_runtime_last() {
  return g_last;
}
/// Calls this inside each allocation; null: nothing.
EXPORT void tp_test_runtime_inside(void (*inside)()) {
  g_inside = inside;
}

EXPORT int cudaMalloc(void** out, std::size_t size) {
  NOTE("cudaMalloc");
  return allocate(out, size);
}
EXPORT int cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  NOTE("cudaMallocPitch");
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height);
}
EXPORT int cudaMalloc3D(PitchedPtr* out, Extent extent) {
  NOTE("cudaMalloc3D");
  *out = {nullptr, extent.width, extent.width, extent.height};
  return allocate(&out->at, extent.width * extent.height * extent.depth);
}
EXPORT int cudaMallocManaged(void** out, std::size_t size, unsigned flags) {
  NOTE("cudaMallocManaged");
  return flags == 1 ? allocate(out, size) : 1;
}
EXPORT int cudaMallocAsync(void** out, std::size_t size, void* stream) {
  NOTE("cudaMallocAsync");
  g_last.stream = stream;
  return allocate(out, size);
}
EXPORT int cudaMallocAsync_ptsz(void** out, std::size_t size, void* stream) {
  NOTE("cudaMallocAsync_ptsz");
  g_last.stream = stream;
  return allocate(out, size);
}
EXPORT int cudaMallocFromPoolAsync(void** out, std::size_t size, void* pool, void* stream) {
  NOTE("cudaMallocFromPoolAsync");
  g_last.stream = stream;
  return pool != nullptr ? allocate(out, size) : 1;
}
EXPORT int cudaMallocFromPoolAsync_ptsz(void** out, std::size_t size, void* pool, void* stream) {
  NOTE("cudaMallocFromPoolAsync_ptsz");
  g_last.stream = stream;
  return pool != nullptr ? allocate(out, size) : 1;
}
EXPORT int cudaFree(void* at) {
  NOTE("cudaFree");
  return release(at);
}
EXPORT int cudaFreeAsync(void* at, void* stream) {
  NOTE("cudaFreeAsync");
  g_last.stream = stream;
  return release(at);
}
EXPORT int cudaFreeAsync_ptsz(void* at, void* stream) {
  NOTE("cudaFreeAsync_ptsz");
  g_last.stream = stream;
  return release(at);
}
