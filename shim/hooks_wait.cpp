// Where the program waits for the device it learns that work has failed: passed on, and an address where
// nothing was is told of (note_wrong_address), since Tidepool may have taken that memory away. Pools give
// back there what they hold beyond their threshold.

#include "shim/entry.h"
#include "shim/gate.h"
#include "shim/pools.h"

namespace tidepool::shim {
namespace {

constexpr auto kWait = [](const auto& call, auto... args) noexcept {
  const CUresult result = call(args...);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    note_wrong_address(call.kName, result);
  } else {
    release_unused();
  }
  return result;
};

}  // namespace

TP_HANDLE(cuCtxSynchronize, kWait)
TP_HANDLE(cuCtxSynchronize_v2, kWait)
TP_HANDLE_PTSZ(cuStreamSynchronize, kWait)
TP_HANDLE(cuEventSynchronize, kWait)

}  // namespace tidepool::shim
