#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "shim/old_abi.h"

/// How this program calls the driver: by the exported name, so that each version of a function is met, and
/// once more where a call fails. An error is told on stderr, "told NAME CODE"; what fails twice ends the
/// program.
namespace tidepool::faults {

enum Exit : int {
  kRight = 0,
  kNoMemory = 3,    ///< a call failed twice, the second time with out of memory
  kOtherError = 4,  ///< or with another error
  kWrongBytes = 5,  ///< memory holds what it must not hold
};

/// Of the round that is under way; odd rounds call the twins for the thread's own stream.
extern bool g_twins;

/// The exported symbol, or its twin where there is one and it is its turn. Ends the program where there is
/// none.
void* symbol(const char* name);

/// Says that a call gave an error; ends the program at the second one.
void tell(const char* name, CUresult result, bool again);

template <class Function>
class Call {
 public:
  explicit Call(const char* name) : name_(name), function_(reinterpret_cast<Function>(symbol(name))) {}

  template <class... A>
  void operator()(A... arguments) const {
    for (const bool again : {false, true}) {
      const CUresult result = function_(arguments...);
      if (result == CUDA_SUCCESS) return;
      tell(name_, result, again);
    }
  }

 private:
  const char* name_;
  Function function_;
};

/// Ends the program with kWrongBytes.
[[noreturn]] void wrong(const char* file, int line, const char* what);

}  // namespace tidepool::faults

#define CALL(name) (::tidepool::faults::Call<decltype(&::name)>(#name))
#define EXPECT(condition) \
  ((condition) ? static_cast<void>(0) : ::tidepool::faults::wrong(__FILE__, __LINE__, #condition))
