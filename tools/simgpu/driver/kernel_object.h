#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/fatbin/image.h"
#include "tools/simgpu/include/simgpu/abi.h"

namespace simgpu {

struct Context;
struct Library;
namespace digest {
struct KernelRoles;
}

/// A kernel of a loaded library. It answers to two handles, as in the driver: a CUkernel and the CUfunction
/// of the context.
struct Kernel {
  std::string name;  ///< mangled, as asked for
  Library* library = nullptr;
  const SimgpuKernelBody* body = nullptr;  ///< null: the program has none
  /// The parameters, from the image or else from the body; empty and not known if neither says.
  std::vector<SimgpuParam> params;
  bool params_known = false;
  bool loaded = false;                               ///< what cuFuncIsLoaded says
  std::shared_ptr<const digest::KernelRoles> roles;  ///< of a kernel without body, from its first launch on
  int max_dynamic_shared = 48 << 10;
  int carveout = -1;
  int non_portable_cluster = 0;
  char function_handle = 0;  ///< its address is the CUfunction

  [[nodiscard]] CUkernel kernel() { return reinterpret_cast<CUkernel>(this); }
  [[nodiscard]] CUfunction function() { return reinterpret_cast<CUfunction>(&function_handle); }
  /// Bytes of the parameter buffer.
  [[nodiscard]] std::uint32_t param_bytes() const {
    return params.empty() ? 0 : params.back().offset + params.back().size;
  }
};

/// What of a library's image the devices of one compute capability load.
struct DeviceImage {
  fatbin::Capability capability;
  fatbin::ChosenImage chosen;
  CUresult result = CUDA_SUCCESS;  ///< of choosing, later of reading
  mutable bool is_told = false;    ///< that it has no code, where others of its library have
  fatbin::ModuleFacts facts;
  std::unordered_map<std::string_view, const fatbin::KernelFacts*> kernels;  ///< of facts, by name
};

/// The variables of a library in one context. They share one block of the plain heap.
struct LibraryData {
  Context* context = nullptr;
  std::uint64_t context_id = 0;
  std::uint64_t block = 0;              ///< start of the block, 0 if there are no variables
  std::vector<std::uint64_t> segments;  ///< address of each segment of the image
};

/// A __managed__ variable: managed memory of its own, one for all contexts.
struct ManagedVariable {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

/// A library or module. Unloading drains the device first; launches that are about to be queued keep it.
struct Library : std::enable_shared_from_this<Library> {
  const Context* owner = nullptr;  ///< of a module, which ends with it; null: a library
  bool read = false;               ///< images are read when the first kernel or variable is asked for
  std::vector<std::unique_ptr<DeviceImage>> images;  ///< none: simgpu's own empty image
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<std::unique_ptr<LibraryData>> data;
  std::map<std::string, ManagedVariable> managed;  ///< there once the library is loaded into a context
};

/// The kernel, which keeps its library.
inline std::shared_ptr<const Kernel> keep(const Kernel& kernel) {
  return {kernel.library->shared_from_this(), &kernel};
}

}  // namespace simgpu
