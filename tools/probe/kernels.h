#pragma once

#include <cuda.h>

#include "tools/probe/driver.h"
#include "tools/probe/kernel_bodies.h"

namespace tidepool::probe {

/// How a kernel is launched: a grid of one or two dimensions of equal blocks.
struct Launch {
  CUstream stream = nullptr;
  unsigned blocks = 1;
  unsigned threads = 1;
  unsigned blocks_y = 1;
  unsigned threads_y = 1;
  bool programmatic = false;  ///< with programmatic stream serialization; needs cuLaunchKernelEx
};

/// Launches; `params` as cuLaunchKernel takes them. Throws DriverError.
void launch_function(CUfunction function, const Launch& how, void** params);

template <class Signature>
class Kernel;

/// A kernel of the current context, with its parameters' types.
template <class... P>
class Kernel<void(P...)> {
 public:
  Kernel() = default;
  explicit Kernel(CUfunction function) : function_(function) {}

  void operator()(const Launch& how, P... params) const {
    void* list[] = {const_cast<void*>(static_cast<const void*>(&params))..., nullptr};
    launch_function(function_, how, list);
  }
  [[nodiscard]] CUfunction function() const noexcept { return function_; }

 private:
  CUfunction function_ = nullptr;
};

/// All kernels of kernels.def, in one context.
struct Kernels {
#define TP_PROBE_KERNEL(name, Body, params, ...) Kernel<void params> name;
#include "tools/probe/kernels.def"
};

/// Loads the kernels into the current context, where they stay until it ends. Throws DriverError.
Kernels load_kernels();

}  // namespace tidepool::probe
