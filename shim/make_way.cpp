#include "shim/make_way.h"

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
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || active_driver().runtime.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  return device == managed_device() ? runtime : nullptr;
}

}  // namespace

void make_way(CUdevice device, Bytes size) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr || device != managed_device()) return;
  (void)runtime->set_outside(outside_bytes(device).all() + size);
}

void settle_outside(CUdevice device) noexcept {
  runtime::Runtime* runtime = managed();
  if (runtime != nullptr && device == managed_device())
    (void)runtime->set_outside(outside_bytes(device).all());
}

bool give_way() noexcept {
  runtime::Runtime* runtime = runtime_of_current();
  return runtime != nullptr && runtime->give_back(kGiven);
}

}  // namespace tidepool::shim
