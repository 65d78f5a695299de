#include "shim/gate.h"

#include <atomic>

#include "allocator/failed_call.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "shim/ownership.h"
#include "shim/process.h"
#include "shim/real_driver.h"

namespace tidepool::shim {

CUresult keep_blocks(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids,
                     runtime::WorkName what) noexcept {
  if (ids.empty() || runtime.frozen()) return CUDA_SUCCESS;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP1013>(runtime::WorkName::Text(what).c_str());
  return static_cast<CUresult>(runtime.keep(ids, what).code());
}

// Where devices cannot reach each other, or access cannot be had, the driver has the last word about the
// copy.
void let_stream_in(CUstream stream) noexcept {
  const RealDriver& driver = active_driver();
  CUcontext context = nullptr;
  const bool is_current = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  const CUresult asked =
      is_current ? driver.runtime.cuCtxGetCurrent(&context) : driver.runtime.cuStreamGetCtx(stream, &context);
  const CUdevice user = asked == CUDA_SUCCESS && context != nullptr ? device_of(context) : -1;
  if (user < 0) return;
  for_each_managed([&](const ManagedDevice& device) {
    if (device.ordinal != user && can_reach(user, device.ordinal)) (void)let_peer_in(device.ordinal, user);
  });
}

bool is_all_work_awaited() noexcept {
  return options().check == CheckLevel::kUnmap;
}

void await_work(const WorkUses& uses, runtime::WorkName what) noexcept {
  for_each_managed([&](const ManagedDevice& device) {
    if (const runtime::Use use = uses.by_slot[device.slot]) device.runtime->park_idle(use, what);
  });
}

CUresult pass_and_await(CUstream stream, bool per_thread, runtime::WorkName what,
                        FunctionRef<CUresult()> enqueue) noexcept {
  // Asked for now: a context that has met an illegal address answers nothing any more.
  const runtime::WorkName::Text name(what);
  const CUresult result = with_room(enqueue);
  WorkUses uses;
  note_work(stream, per_thread, uses);
  await_work(uses, name.c_str());
  return result;
}

CUresult pass_without_blocks(CUstream stream, bool per_thread, runtime::WorkName what,
                             FunctionRef<CUresult()> enqueue) noexcept {
  if (is_all_work_awaited()) return pass_and_await(stream, per_thread, what, enqueue);
  const CUresult result = with_room(enqueue);
  note_work(stream, per_thread);
  return result;
}

CUresult pass_captured(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids, CUstream stream,
                       bool per_thread, runtime::WorkName what, FunctionRef<CUresult()> enqueue) noexcept {
  bool is_called = false;
  const CUresult result = with_room_outside([&](bool& is_refused) {
    const auto capture = [&] {
      is_called = true;
      const CUresult captured = enqueue();
      is_refused = captured == CUDA_ERROR_OUT_OF_MEMORY;
      return static_cast<int>(captured);
    };
    return static_cast<CUresult>(runtime.call_captured(ids, what, capture));
  });
  return is_called ? result : spoil_capture(stream, per_thread, result);
}

CUresult pass_unfollowed(runtime::Runtime& runtime, std::span<const runtime::BlockId> ids, CUstream stream,
                         runtime::WorkName what, Reach reach, FunctionRef<CUresult()> enqueue) noexcept {
  if (reach == Reach::kCopies) let_stream_in(stream);
  const CUresult kept = keep_blocks(runtime, ids, what);
  return kept == CUDA_SUCCESS ? with_room(enqueue) : kept;
}

void note_wrong_address(runtime::WorkName what, CUresult result) noexcept {
  const auto status = runtime::Status(static_cast<int>(result));
  if (!runtime::is_wrong_address(status)) return;
  if (StatsPage::instance().get(Metric::blocks_managed_total) == 0) return;
  runtime::report_lost(runtime::WorkName::Text(what).c_str(), status);
}

void note_work(CUstream stream, bool per_thread) noexcept {
  if (is_capturing(stream, per_thread)) return;
  const ManagedDevice* const home = home_of(stream);
  if (home == nullptr) return;
  for_each_managed([&](const ManagedDevice& device) {
    (void)device.runtime->note_work(stream_for(device, *home, stream, per_thread));
  });
}

void note_work(CUstream stream, bool per_thread, WorkUses& uses) noexcept {
  if (is_capturing(stream, per_thread)) return;
  const ManagedDevice* const home = home_of(stream);
  uses.is_followed = home != nullptr;
  if (home == nullptr) return;
  for_each_managed([&](const ManagedDevice& device) {
    uses.by_slot[device.slot] = device.runtime->note_work(stream_for(device, *home, stream, per_thread));
  });
}

}  // namespace tidepool::shim
