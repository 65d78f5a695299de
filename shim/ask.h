#pragma once

#include <cuda.h>

namespace tidepool::shim {

/// Asks the driver once more, and once again, where the answer is an error: for questions whose answer
/// decides something for good, which one call that fails must not, and for what must be given back. `ask()`
/// returns a CUresult.
template <class Ask>
CUresult ask_again(Ask&& ask) noexcept {
  CUresult asked = ask();
  for (int more = 2; more > 0 && asked != CUDA_SUCCESS; --more) asked = ask();
  return asked;
}

}  // namespace tidepool::shim
