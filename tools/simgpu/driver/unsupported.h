#pragma once

#include <vector>

namespace simgpu {

/// One function as cuGetProcAddress knows it; the columns of entries.def.
struct EntryRow {
  const char* base;
  int since;
  void* function;
  void* twin;  ///< null: none
};

/// CUDA_ERROR_NOT_SUPPORTED, for the one file that cannot include cuda.h.
inline constexpr int kNotSupported = 801;

/// The functions of unsupported.def.
const std::vector<EntryRow>& unsupported_rows();

}  // namespace simgpu
