#include "tools/simgpu/driver/unsupported.h"

#include "tools/simgpu/driver/report.h"

// One body for all: the x86-64 calling convention lets a callee ignore its arguments. So cuda.h, which
// declares them, stays outside of this file.

namespace simgpu {
namespace {

int refuse(const char* name) noexcept {
  note_unsupported(name);
  return kNotSupported;
}

}  // namespace

#define SIMGPU_EXPORT __attribute__((visibility("default")))
#define SIMGPU_TWIN_NONE(exported)
#define SIMGPU_TWIN_PTSZ(exported)                 \
  extern "C" SIMGPU_EXPORT int exported##_ptsz() { \
    return refuse(#exported);                      \
  }
#define SIMGPU_TWIN_PTDS(exported)                 \
  extern "C" SIMGPU_EXPORT int exported##_ptds() { \
    return refuse(#exported);                      \
  }
#define SIMGPU_UNSUPPORTED(base, exported, since, twin) \
  extern "C" SIMGPU_EXPORT int exported() {             \
    return refuse(#exported);                           \
  }                                                     \
  SIMGPU_TWIN_##twin(exported)
#include "tools/simgpu/driver/unsupported.def"
#undef SIMGPU_UNSUPPORTED
#undef SIMGPU_TWIN_NONE
#undef SIMGPU_TWIN_PTSZ
#undef SIMGPU_TWIN_PTDS

#define SIMGPU_TWIN_NONE(exported) nullptr
#define SIMGPU_TWIN_PTSZ(exported) reinterpret_cast<void*>(&exported##_ptsz)
#define SIMGPU_TWIN_PTDS(exported) reinterpret_cast<void*>(&exported##_ptds)

const std::vector<EntryRow>& unsupported_rows() {
  static const auto* rows = new std::vector<EntryRow>{
#define SIMGPU_UNSUPPORTED(base, exported, since, twin) \
  {#base, since, reinterpret_cast<void*>(&exported), SIMGPU_TWIN_##twin(exported)},
#include "tools/simgpu/driver/unsupported.def"
#undef SIMGPU_UNSUPPORTED
  };
  return *rows;
}

}  // namespace simgpu
