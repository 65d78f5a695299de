// The start: where the driver finds no device nothing is managed, and nothing else would say why.

#include <utility>

#include "allocator/support/message.h"
#include "shim/entry.h"

namespace tidepool::shim {
namespace {

constexpr auto kInit = [](const auto& call, unsigned flags) noexcept {
  // What the driver loads meanwhile (CUDA_INJECTION64_PATH) calls as the program does.
  const int depth = std::exchange(t_depth, 0);
  const CUresult result = call(flags);
  t_depth = depth;
  if (result == CUDA_ERROR_NO_DEVICE && times_reported(Msg::TP1021) == 0) report<Msg::TP1021>();
  return result;
};

}  // namespace

TP_HANDLE(cuInit, kInit)

}  // namespace tidepool::shim
