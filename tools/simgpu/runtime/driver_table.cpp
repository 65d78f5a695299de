#include "tools/simgpu/runtime/driver_table.h"

#include <dlfcn.h>

#include "tools/simgpu/runtime/program_memory.h"

namespace simgpu::runtime {
namespace {

using Lookup = decltype(&::cuGetProcAddress_v2);

/// Stands for every function that the driver lacks: the x86-64 calling convention lets a callee ignore its
/// arguments.
CUresult not_in_this_driver() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

void* find(Lookup lookup, const char* name, int since, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  const CUresult result = lookup(name, &found, since, flags, &status);
  return result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS ? found : nullptr;
}

void fill(DriverTable* table, Lookup lookup, cuuint64_t flags) {
#define SIMGPU_DRIVER(name, since)                                              \
  {                                                                             \
    void* found = find(lookup, #name, since, flags);                            \
    if (found == nullptr) found = reinterpret_cast<void*>(&not_in_this_driver); \
    table->name = reinterpret_cast<decltype(table->name)>(found);               \
  }
#include "tools/simgpu/runtime/driver_table.def"
#undef SIMGPU_DRIVER
  table->set_body =
      reinterpret_cast<SimgpuLibrarySetBodyFn>(find(lookup, "simgpuLibrarySetBody", CUDA_VERSION, flags));
  table->note = reinterpret_cast<SimgpuNoteFn>(find(lookup, "simgpuNote", CUDA_VERSION, flags));
  table->program = reinterpret_cast<SimgpuProgramFn>(find(lookup, "simgpuProgram", CUDA_VERSION, flags));
  tell_of_program_memory(table, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

}  // namespace

bool load_driver(DriverTable* legacy, DriverTable* per_thread, Lookup* lookup) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  *lookup = reinterpret_cast<Lookup>(::dlsym(library, "cuGetProcAddress_v2"));
  if (*lookup == nullptr || find(*lookup, "cuInit", 2000, CU_GET_PROC_ADDRESS_DEFAULT) == nullptr)
    return false;
  fill(legacy, *lookup, CU_GET_PROC_ADDRESS_DEFAULT);
  fill(per_thread, *lookup, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  return true;
}

}  // namespace simgpu::runtime
