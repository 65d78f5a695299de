#include "tools/simgpu/runtime/driver_table.h"

#include <dlfcn.h>

namespace simgpu::runtime {
namespace {

using Lookup = decltype(&::cuGetProcAddress_v2);

bool fill(DriverTable* table, Lookup lookup, cuuint64_t flags) {
  bool complete = true;
#define SIMGPU_DRIVER(name, since)                                                                       \
  {                                                                                                      \
    void* found = nullptr;                                                                               \
    CUdriverProcAddressQueryResult status{};                                                             \
    const CUresult result = lookup(#name, &found, since, flags, &status);                                \
    complete =                                                                                           \
        complete && result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS && found != nullptr; \
    table->name = reinterpret_cast<decltype(table->name)>(found);                                        \
  }
#include "tools/simgpu/runtime/driver_table.def"
#undef SIMGPU_DRIVER
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  if (lookup("simgpuLibrarySetBody", &found, CUDA_VERSION, flags, &status) == CUDA_SUCCESS) {
    table->set_body = reinterpret_cast<SimgpuLibrarySetBodyFn>(found);
  }
  return complete;
}

}  // namespace

bool load_driver(DriverTable* legacy, DriverTable* per_thread, Lookup* lookup) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  *lookup = reinterpret_cast<Lookup>(::dlsym(library, "cuGetProcAddress_v2"));
  if (*lookup == nullptr) return false;
  return fill(legacy, *lookup, CU_GET_PROC_ADDRESS_DEFAULT) &&
         fill(per_thread, *lookup, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

}  // namespace simgpu::runtime
