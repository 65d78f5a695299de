#include "shim/gate.h"

#include <atomic>

#include "allocator/support/message.h"

namespace tidepool::shim {

CUresult keep_blocks(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                     runtime::WorkName what) noexcept {
  if (ids.empty() || runtime.frozen()) return CUDA_SUCCESS;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP1013>(runtime::WorkName::Text(what).c_str());
  for (const runtime::BlockId id : ids) {
    const auto status = runtime.keep(runtime.arena().block(id).base, what);
    if (!status.ok()) return static_cast<CUresult>(status.code());
  }
  return CUDA_SUCCESS;
}

}  // namespace tidepool::shim
