#pragma once

#include <cuda.h>

#include <cstddef>

namespace tidepool::doors {

/// What a driver said about the parameters of one handle; numbers are CUresult values, kNotAsked where the
/// call was not made or the driver has no such entry.
struct LayoutAnswer {
  static constexpr int kNotAsked = -1;

  /// One of cuFuncGetParamInfo and cuKernelGetParamInfo.
  struct Parameters {
    int result = kNotAsked;  ///< of the first parameter
    int end = kNotAsked;     ///< the answer that ended the list
    int count = 0;
    std::size_t bytes = 0;  ///< to the end of the last parameter
  };
  Parameters by_function;
  Parameters by_kernel;
  int function_name = kNotAsked;    ///< cuFuncGetName
  int kernel_name = kNotAsked;      ///< cuKernelGetName
  int kernel_function = kNotAsked;  ///< cuKernelGetFunction: works for a CUkernel alone
  int loaded_before = kNotAsked;    ///< cuFuncIsLoaded before anything was asked: 0, 1; an error is negative
  int loaded_after = kNotAsked;     ///< the same once names and parameters were asked
  const char* name = nullptr;       ///< the driver's own string
};

/// Asks the driver about a handle. Every call may meet a handle of the other kind, as every launch may.
LayoutAnswer ask_layout(CUfunction handle) noexcept;

/// "lazy", "eager", "" if the driver does not tell.
const char* loading_mode() noexcept;

}  // namespace tidepool::doors
