// An NCCL of one rank: copies behind the hooks' back, as NCCL's kernels take their work from a queue.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>

namespace {

/// The driver's own function: not by dlsym, which leads to a hook.
template <class F>
F* find(const char* name) {
  using Dlsym = void* (*)(void*, const char*);
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto own =
      reinterpret_cast<Dlsym>(dlvsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "dlsym", "GLIBC_2.34"));
  return reinterpret_cast<F*>(own(driver, name));
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int ncclAllReduce(const void* from, void* to, std::size_t count, int,
                                                         int, void*, CUstream stream) {
  return static_cast<int>(find<decltype(cuMemcpyDtoDAsync_v2)>("cuMemcpyDtoDAsync_v2")(
      address_of(to), address_of(from), count, stream));
}

__attribute__((visibility("default"))) int ncclReduce(const void* from, void* to, std::size_t count, int type,
                                                      int operation, int root, void* comm, CUstream stream) {
  if (type != 1 || operation != 2 || root != 3 || comm == nullptr) return 9;
  return ncclAllReduce(from, to, count, type, operation, comm, stream);
}

/// Of a rank that only sends: the other buffer is not looked at.
__attribute__((visibility("default"))) int ncclBroadcast(const void*, void*, std::size_t, int, int, void*,
                                                         CUstream) {
  return 0;
}
}
