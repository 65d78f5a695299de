#include "shim/make_way.h"

#include <mutex>

#include "shim/managed.h"
#include "shim/outside_memory.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

// How much a refused call is given: the driver does not say what it wanted. A module's code and data, an
// upload of a graph, a small workspace fit; and what is given comes back by itself when it is needed.
constexpr Bytes kGiven = MiB(64);

/// The runtime of the current device, if there is one already.
runtime::Runtime* runtime_of_current() noexcept {
  CUdevice device = 0;
  if (!any_managed() || active_driver().runtime.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  const ManagedDevice* const managed = managed_on(device);
  return managed != nullptr ? managed->runtime : nullptr;
}

constinit std::mutex g_setting;

// Worked out and set as one step, or of two threads the one that looked first could have the last word.
void set_outside(runtime::Runtime& runtime, CUdevice device, Bytes more) noexcept {
  {
    const std::lock_guard guard(g_setting);
    runtime.set_outside(outside_bytes(device).all() + more);
  }
  (void)runtime.keep_limit();
}

}  // namespace

void make_way(CUdevice device, Bytes size) noexcept {
  if (const ManagedDevice* managed = managed_on(device)) set_outside(*managed->runtime, device, size);
}

void settle_outside(CUdevice device) noexcept {
  make_way(device, Bytes());
}

void settle_outside_of_all() noexcept {
  for_each_managed([](const ManagedDevice& device) { settle_outside(device.ordinal); });
}

bool give_way() noexcept {
  runtime::Runtime* runtime = runtime_of_current();
  return runtime != nullptr && runtime->give_back(kGiven);
}

}  // namespace tidepool::shim
