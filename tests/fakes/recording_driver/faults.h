#pragma once

#include <string>
#include <string_view>

namespace tidepool::fakes {

/// How the recording driver misbehaves, from TP_RECORDING_FAULTS: words with commas between.
///
///   newer=NAME                 cuGetProcAddress answers NAME with a version 9 that no symbol and no table
///   has function_params=KERNEL:N   cuFuncGetParamInfo of this kernel fails with error N;
///   cuKernelGetParamInfo works,
///                              for a CUfunction too
///   no_params=KERNEL:N         both fail with error N
///   illegal_sync=N             the Nth synchronize of the process finds an illegal address
///   slow=NAME:N                each call of this entry sleeps for N ms first, where its thread can be
///   cancelled illegal_kernel=KERNEL      so does the first one after a launch of this kernel
///
///   mps=1                      the device is shared by MPS
///
/// After an illegal address every call answers with that error, but those that only tell names or versions.
struct Faults {
  std::string newer;
  std::string function_params;
  int function_params_error = 0;
  std::string no_params;
  int no_params_error = 0;
  std::string slow;
  int slow_ms = 0;
  unsigned long mps = 0;
  unsigned long illegal_sync = 0;
  std::string illegal_kernel;
};

/// The process' faults, read once. A word that is not understood ends the process.
const Faults& faults();

/// Reads such a text; false if a word is not understood.
bool parse_faults(std::string_view text, Faults& out);

}  // namespace tidepool::fakes
