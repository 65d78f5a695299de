// The device side of the probe, built into a fat binary that the program carries and loads itself: it needs
// no CUDA runtime.

#include "tools/probe/kernel_bodies.h"

namespace {

/// Lets the next grid in the stream start, and waits until the one before has ended and its writes are seen.
/// Both do nothing in a launch without programmatic stream serialization, and are new in Hopper.
__device__ void depend_on_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace

namespace tidepool::probe {

#define TP_PROBE_KERNEL(name, Body, params, ...)            \
  extern "C" __global__ void tidepool_probe_##name params { \
    ::simgpu::DeviceContext context;                        \
    Body::run(context __VA_OPT__(, ) __VA_ARGS__);          \
  }
#define TP_PROBE_WAITING_KERNEL(name, Body, params, ...)    \
  extern "C" __global__ void tidepool_probe_##name params { \
    depend_on_previous();                                   \
    ::simgpu::DeviceContext context;                        \
    Body::run(context, __VA_ARGS__);                        \
  }
#include "tools/probe/kernels.def"

}  // namespace tidepool::probe
