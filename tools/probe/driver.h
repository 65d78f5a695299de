#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "allocator/cuda/driver.h"
#include "simgpu/abi.h"

namespace tidepool::probe {

/// The driver's functions: those that the runtime calls and those of driver.def. Found by dlsym in
/// libcuda.so.1, so that whatever stands in front of dlsym (a preloaded library) hands out its own.
struct Driver : runtime::DriverTable {
#define TP_PROBE_DRIVER(symbol, type) std::type_identity_t<type> symbol = nullptr;
#include "tools/probe/driver.def"
#undef TP_PROBE_DRIVER
  /// The first ABI of cuEventElapsedTime: the second, of CUDA 12.8, differs in nothing that matters here, and
  /// older drivers lack it.
  CUresult (*event_elapsed)(float* ms, CUevent from, CUevent to) = nullptr;
  /// Where the device runs kernels on the CPU: ties their bodies to a module. Null on hardware.
  SimgpuLibrarySetBodyFn set_kernel_body = nullptr;
};

/// Opens libcuda.so.1 and finds its functions. Empty, or why that failed. Initialises nothing.
std::string open_driver();
/// The functions, once open_driver() has succeeded.
const Driver& cu();

/// The driver's name for a result, as in "CUDA_ERROR_ILLEGAL_ADDRESS".
std::string result_name(CUresult result);

/// A driver call that failed, or a function that the driver lacks (CUDA_ERROR_NOT_FOUND).
class DriverError : public std::runtime_error {
 public:
  DriverError(const char* call, CUresult result);
  [[nodiscard]] CUresult result() const noexcept { return result_; }

 private:
  CUresult result_;
};

/// Calls a function of the driver; throws DriverError unless it succeeds.
template <class... P, class... A>
void call_driver(CUresult (*function)(P...), const char* name, A&&... arguments) {
  if (function == nullptr) throw DriverError(name, CUDA_ERROR_NOT_FOUND);
  const CUresult result = function(std::forward<A>(arguments)...);
  if (result != CUDA_SUCCESS) throw DriverError(name, result);
}

}  // namespace tidepool::probe

/// TP_CU(cuMemRelease, handle): the call, checked.
#define TP_CU(name, ...) \
  ::tidepool::probe::call_driver(::tidepool::probe::cu().name, #name __VA_OPT__(, ) __VA_ARGS__)
