#include "tools/simgpu/runtime/unsupported.h"

// One body for all: the x86-64 calling convention lets a callee ignore its arguments. So cuda_runtime_api.h,
// which declares them, stays outside of this file.

namespace simgpu::runtime {

#define SIMGPU_EXPORT __attribute__((visibility("default")))
#define SIMGPU_TWIN_NONE(name)
#define SIMGPU_TWIN_PTSZ(name)                 \
  extern "C" SIMGPU_EXPORT int name##_ptsz() { \
    return refuse(#name);                      \
  }
#define SIMGPU_TWIN_PTDS(name)                 \
  extern "C" SIMGPU_EXPORT int name##_ptds() { \
    return refuse(#name);                      \
  }
#define SIMGPU_UNSUPPORTED(name, twin)  \
  extern "C" SIMGPU_EXPORT int name() { \
    return refuse(#name);               \
  }                                     \
  SIMGPU_TWIN_##twin(name)
#include "tools/simgpu/runtime/unsupported.def"
#undef SIMGPU_UNSUPPORTED

}  // namespace simgpu::runtime
