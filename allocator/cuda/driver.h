#pragma once

#include <cuda.h>

namespace tidepool::runtime {

/// The driver's own functions, one pointer per row of driver.def, found by name in libcuda.so.1. Filled by
/// the shim (or by a test); all of them are set before a DriverDevice is made.
struct DriverTable {
#define TP_DRIVER(name) decltype(&::name) name = nullptr;
#include "allocator/cuda/driver.def"
#undef TP_DRIVER

  /// Asks `find(const char* name) -> void*` for every row. Null, or the first name that is missing; the
  /// others are there all the same.
  template <class Find>
  const char* fill(Find&& find) noexcept {
    const char* missing = nullptr;
#define TP_DRIVER(name)                                             \
  this->name = reinterpret_cast<decltype(this->name)>(find(#name)); \
  if (this->name == nullptr && missing == nullptr) missing = #name;
#include "allocator/cuda/driver.def"
#undef TP_DRIVER
    return missing;
  }
};

}  // namespace tidepool::runtime
