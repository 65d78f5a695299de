// Entries of a version that we do not know: before the first call goes on, everything managed is brought to
// the device and stays there, since we cannot tell what the call names.

#include "allocator/support/message.h"
#include "shim/managed.h"
#include "shim/process.h"
#include "shim/unknown_entry.h"

namespace tidepool::shim {

bool handle_unknown(const char* symbol) noexcept {
  if (t_depth != 0 || g_mode.load(std::memory_order_acquire) != Mode::kActive) return true;
  const DepthGuard guard;
  bool may_go_on = true;
  for_each_managed([&](const ManagedDevice& device) {
    if (!may_go_on || device.runtime->frozen()) return;
    report<Msg::TP1012>(symbol);
    may_go_on = device.runtime->freeze(symbol).ok();
  });
  return may_go_on;
}

}  // namespace tidepool::shim
