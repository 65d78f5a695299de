#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/include/simgpu/abi.h"

namespace simgpu {

struct Library;

/// A kernel of a loaded library. It answers to two handles, as in the driver: a CUkernel and the CUfunction
/// of the context.
struct Kernel {
  std::string name;  ///< mangled, as asked for
  Library* library = nullptr;
  const SimgpuKernelBody* body = nullptr;  ///< null: the program has none, and a launch is refused
  int max_dynamic_shared = 48 << 10;
  int carveout = -1;
  int non_portable_cluster = 0;
  char function_handle = 0;  ///< its address is the CUfunction

  [[nodiscard]] CUkernel kernel() { return reinterpret_cast<CUkernel>(this); }
  [[nodiscard]] CUfunction function() { return reinterpret_cast<CUfunction>(&function_handle); }
  /// Bytes of the parameter buffer.
  [[nodiscard]] std::uint32_t param_bytes() const {
    if (body == nullptr || body->param_count == 0) return 0;
    const SimgpuParam& last = body->params[body->param_count - 1];
    return last.offset + last.size;
  }
};

/// A library or module. Kernels are kept until it is unloaded; queued launches keep using them, so unloading
/// drains the device first.
struct Library {
  bool is_module = false;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

}  // namespace simgpu
