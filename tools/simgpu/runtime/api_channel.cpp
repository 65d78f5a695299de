#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {

/// Only puts its arguments together; programs call it before they know whether there are arrays.
extern "C" SIMGPU_EXPORT cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                               cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

}  // namespace simgpu::runtime
