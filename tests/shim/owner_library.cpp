// Built under several names, some of them a CUDA library's: allocates through the driver. A program finds its
// functions by dlsym.

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>

namespace {

template <class F>
F* find(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<F*>(dlsym(driver, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUresult tp_test_driver_alloc(CUdeviceptr* out, std::size_t size) {
  return find<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2")(out, size);
}

__attribute__((visibility("default"))) CUresult tp_test_driver_alloc_pitch(CUdeviceptr* out,
                                                                           std::size_t* pitch,
                                                                           std::size_t width,
                                                                           std::size_t height) {
  return find<decltype(cuMemAllocPitch_v2)>("cuMemAllocPitch_v2")(out, pitch, width, height, 4);
}

__attribute__((visibility("default"))) CUresult tp_test_driver_create(CUmemGenericAllocationHandle* out,
                                                                      std::size_t size,
                                                                      const CUmemAllocationProp* properties) {
  return find<decltype(cuMemCreate)>("cuMemCreate")(out, size, properties, 0);
}
}
