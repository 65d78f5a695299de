#include "shim/gate.h"

#include <atomic>

#include "allocator/support/message.h"

namespace tidepool::shim {

CUresult keep_blocks(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                     runtime::WorkName what) noexcept {
  if (ids.empty() || runtime.frozen()) return CUDA_SUCCESS;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP1013>(runtime::WorkName::Text(what).c_str());
  return static_cast<CUresult>(runtime.keep(ids, what).code());
}

void note_work(CUstream stream, bool per_thread) noexcept {
  if (is_capturing(stream, per_thread)) return;
  const ManagedDevice* const home = home_of(stream);
  if (home == nullptr) return;
  for_each_managed([&](const ManagedDevice& device) {
    device.runtime->note_work(stream_for(device, *home, stream, per_thread));
  });
}

}  // namespace tidepool::shim
