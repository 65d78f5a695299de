#include "shim/managed.h"

#include <mutex>
#include <new>
#include <utility>

#include "allocator/support/host_memory.h"
#include "allocator/support/message.h"
#include "shim/ask.h"
#include "shim/buffer_ids.h"
#include "shim/make_way.h"
#include "shim/observe.h"
#include "shim/ownership.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/record.h"
#include "shim/unknown_binding.h"

namespace tidepool::shim {

constinit detail::ManagedTable detail::g_managed;

namespace {

using detail::g_managed;

constinit std::mutex g_lock;
std::uint64_t g_gave_up = 0;  // bit: the device with that ordinal; g_lock
bool g_said_foreign = false;  // g_lock
// Which peers may reach a device's memory, by ordinals.
constinit std::array<std::atomic<std::uint64_t>, runtime::kMostDevices> g_let_in{};

bool is_known(CUdevice ordinal) noexcept {
  return ordinal >= 0 && static_cast<unsigned>(ordinal) < runtime::kMostDevices;
}

/// HAMi#759: what MPS does to those who share a device is met by users as errors of the shim.
void warn_of_mps(CUdevice ordinal) noexcept {
  int is_shared = 0;
  const auto ask = active_driver().cuDeviceGetAttribute;
  if (ask == nullptr || ask(&is_shared, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, ordinal) != CUDA_SUCCESS) return;
  if (is_shared != 0) report<Msg::TP1016>(ordinal);
}

/// cudnn-frontend#287: there are set-ups in which memory cannot be created by handle, ever; everything else
/// passes. The driver's error, or success. Any other error may be gone when memory is needed.
CUresult is_refused_memory(runtime::Device& device) noexcept {
  auto result = CUDA_SUCCESS;
  for (int tries = 0; tries < 3; ++tries) {
    const auto handle = device.create(device.granularity());
    if (handle.ok()) {
      // Left behind it would take from the budget, unseen.
      for (int ends = 0; ends < 3 && !device.destroy(*handle).ok(); ++ends) {
      }
      return CUDA_SUCCESS;
    }
    result = static_cast<CUresult>(handle.error().code());
  }
  return result == CUDA_ERROR_NOT_PERMITTED || result == CUDA_ERROR_NOT_SUPPORTED ? result : CUDA_SUCCESS;
}

void give_up(CUdevice ordinal, CUresult code) noexcept {
  report<Msg::TP1011>(ordinal, static_cast<int>(code), options().strict ? kRunsWithout : kOnlyWatched);
  if (!options().strict) observe_memory(false);
}

// `own`: the program's own context, or null for the primary one.
const ManagedDevice* start(const runtime::DriverTable& driver, CUdevice ordinal, CUcontext own,
                           unsigned slot) noexcept {
  runtime::DriverDevice* device = nullptr;
  const CUresult found = ask_again([&] {
    const auto made = runtime::DriverDevice::create(driver, ordinal, own);
    if (made.ok()) device = *made;
    return made.ok() ? CUDA_SUCCESS : static_cast<CUresult>(made.error().code());
  });
  if (found != CUDA_SUCCESS) {
    give_up(ordinal, found);
    return nullptr;
  }
  // Nobody knows the device yet. A reference that is left would keep the context alive for ever.
  const auto undo = [&](CUresult why) -> const ManagedDevice* {
    delete device;
    if (own == nullptr) (void)ask_again([&] { return driver.cuDevicePrimaryCtxRelease_v2(ordinal); });
    give_up(ordinal, why);
    return nullptr;
  };
  if (const CUresult refused = is_refused_memory(*device); refused != CUDA_SUCCESS) return undo(refused);
  device->let_in(g_let_in[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire));
  runtime::Runtime* runtime = nullptr;
  const CUresult started = ask_again([&] {
    const auto made = runtime::Runtime::create(*device, options(), host_memory(), slot);
    if (made.ok()) runtime = *made;
    return made.ok() ? CUDA_SUCCESS : static_cast<CUresult>(made.error().code());
  });
  if (started != CUDA_SUCCESS) return undo(started);
  if (runtime::captures_under_way.load() > 0) runtime->capture_begins();
  start_recording(*runtime, ordinal);
  warn_of_mps(ordinal);
  return new (std::nothrow) ManagedDevice{runtime, device, device->context(), own == nullptr, ordinal, slot};
}

// With g_lock: threads that launch on one device only need not ask which.
void publish_only() noexcept {
  unsigned count = 0;
  for_each_managed([&](const ManagedDevice&) { ++count; });
  const ManagedDevice* const first = managed_in_slot(0);
  g_managed.only.store(count == 1 && first != nullptr ? first->runtime : nullptr, std::memory_order_release);
}

// With g_lock. Peers know each other before anybody is given memory of the new one.
const ManagedDevice* add(CUdevice ordinal, CUcontext own) noexcept {
  unsigned slot = 0;
  while (slot < runtime::kMostDevices && managed_in_slot(slot) != nullptr) ++slot;
  if (any_managed()) name_devices();
  const bool has_place = slot < runtime::kMostDevices && is_known(ordinal);
  const ManagedDevice* const added = has_place ? start(active_driver().runtime, ordinal, own, slot) : nullptr;
  if (added == nullptr) return nullptr;
  for_each_managed([&](const ManagedDevice& other) {
    other.runtime->add_peer(slot, *added->device);
    added->runtime->add_peer(other.slot, *other.device);
  });
  g_managed.slots[slot].store(added, std::memory_order_release);
  if (g_managed.end.load(std::memory_order_relaxed) <= slot)
    g_managed.end.store(slot + 1, std::memory_order_release);
  publish_only();
  return added;
}

// With g_lock. All work of the device has ended.
void remove(const ManagedDevice& gone) noexcept {
  g_managed.slots[gone.slot].store(nullptr, std::memory_order_release);
  unsigned end = g_managed.end.load(std::memory_order_relaxed);
  while (end > 0 && managed_in_slot(end - 1) == nullptr) --end;
  g_managed.end.store(end, std::memory_order_release);
  publish_only();
  forget_buffer_ids(gone.runtime->arena().base().address(), gone.runtime->arena().size());
  for_each_managed([&](const ManagedDevice& other) { other.runtime->remove_peer(gone.slot); });
}

// With g_lock. The context is managed no longer; what was taken for it goes, if its work is known to have
// passed: of a device that was in an error the driver may take nothing back.
void forget(const ManagedDevice& gone, bool has_passed) noexcept {
  gone.device->context_has_ended();
  remove(gone);
  if (has_passed) {
    delete gone.runtime;
  } else {
    gone.runtime->abandon();
  }
}

// With g_lock. The device if its primary context is the managed one.
const ManagedDevice* managed_as_primary(CUdevice ordinal) noexcept {
  const ManagedDevice* const device = managed_on(ordinal);
  return device != nullptr && device->is_primary ? device : nullptr;
}

// With g_lock. May memory of that context, which is not managed, still come to be? The primary one is what
// the CUDA runtime uses: where there is one, no other is taken in its place.
bool may_be_managed(CUdevice ordinal, CUcontext context) noexcept {
  if (!is_known(ordinal) || (g_gave_up >> ordinal & 1) != 0 || manages_nothing()) return false;
  if (managed_on(ordinal) != nullptr) return false;
  const CUcontext primary = primary_context(ordinal);
  return primary == nullptr || primary == context;
}

}  // namespace

const ManagedDevice* manage(CUcontext context, For what) noexcept {
  if (const ManagedDevice* device = managed_in(context)) return device;
  if (manages_nothing()) return nullptr;
  const UnknownBinding unknown;
  const std::lock_guard guard(g_lock);
  if (const ManagedDevice* device = managed_in(context)) return device;
  const CUdevice ordinal = device_of(context);
  if (!is_known(ordinal) || (g_gave_up >> ordinal & 1) != 0) return nullptr;
  if (!may_be_managed(ordinal, context)) {
    if (!std::exchange(g_said_foreign, true)) report<Msg::TP1010>();
    return nullptr;
  }
  const bool is_primary = primary_context(ordinal) == context;
  if (!is_primary && what == For::kAnswer) return nullptr;
  const ManagedDevice* const added = add(ordinal, is_primary ? nullptr : context);
  if (added == nullptr) g_gave_up |= std::uint64_t{1} << ordinal;
  // Calls that go past us may name anything at any time. There is nothing yet that could not stay.
  if (added != nullptr && unknown) {
    report<Msg::TP1012>(unknown.name.data());
    (void)added->runtime->freeze(unknown.name.data());
  }
  settle_outside(ordinal);  // with what was allocated before
  return added;
}

const ManagedDevice* managed_here(For what) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext context = nullptr;
  const CUresult asked = ask_again([&] { return driver.cuCtxGetCurrent(&context); });
  return asked == CUDA_SUCCESS && context != nullptr ? manage(context, what) : nullptr;
}

bool is_limited(CUdevice device) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext context = nullptr;
  CUdevice current = 0;
  if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
      driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
    if (managed_here() != nullptr) return true;
    const std::lock_guard guard(g_lock);
    return may_be_managed(device, context);
  }
  if (managed_on(device) != nullptr) return true;
  const std::lock_guard guard(g_lock);
  return is_known(device) && (g_gave_up >> device & 1) == 0 && !manages_nothing();
}

CUresult let_peer_in(CUdevice device, CUdevice peer) noexcept {
  if (!is_known(device) || !is_known(peer) || device == peer) return CUDA_SUCCESS;
  std::atomic<std::uint64_t>& let_in = g_let_in[static_cast<std::size_t>(device)];
  const std::uint64_t bit = std::uint64_t{1} << peer;
  if ((let_in.load(std::memory_order_acquire) & bit) != 0) return CUDA_SUCCESS;
  const std::lock_guard guard(g_lock);
  if (const ManagedDevice* managed = managed_on(device)) {
    managed->device->let_in(bit);
    if (const runtime::Status status = managed->runtime->renew_access(); !status.ok()) {
      managed->device->keep_out(bit);
      return static_cast<CUresult>(status.code());
    }
  }
  let_in.fetch_or(bit, std::memory_order_acq_rel);
  return CUDA_SUCCESS;
}

// A driver may fork inside a call of ours (to start its helpers), with the lock held by this very thread.
void lock_for_fork() noexcept {
  if (t_depth == 0) g_lock.lock();
}
void unlock_after_fork() noexcept {
  if (t_depth == 0) g_lock.unlock();
}

// Physical memory and addresses belong to no context: a reset leaves them behind, and they go after it, when
// nothing needs them any more.
CUresult reset_primary(CUdevice device, CUresult (*reset)(CUdevice)) noexcept {
  const std::lock_guard guard(g_lock);
  const ManagedDevice* const managed = managed_as_primary(device);
  const bool has_passed = managed == nullptr || managed->runtime->wait_idle().ok();
  const CUresult result = reset(device);
  if (result != CUDA_SUCCESS || managed == nullptr) return result;
  // A reset takes nobody's reference; ours would keep the next context alive.
  (void)ask_again([&] { return active_driver().runtime.cuDevicePrimaryCtxRelease_v2(device); });
  forget(*managed, has_passed);
  return result;
}

// How many references there are the driver tells nobody. So ours goes for a moment as well: if the context
// outlives that, somebody else holds it.
CUresult release_primary(CUdevice device, CUresult (*release)(CUdevice)) noexcept {
  const std::lock_guard guard(g_lock);
  const CUresult result = release(device);
  const ManagedDevice* const managed = managed_as_primary(device);
  if (result != CUDA_SUCCESS || managed == nullptr) return result;
  const runtime::DriverTable& driver = active_driver().runtime;
  const CUresult given_up = ask_again([&] { return driver.cuDevicePrimaryCtxRelease_v2(device); });
  if (given_up != CUDA_SUCCESS) return result;
  unsigned flags = 0;
  int active = 0;
  const CUresult asked =
      ask_again([&] { return driver.cuDevicePrimaryCtxGetState(device, &flags, &active); });
  if (asked == CUDA_SUCCESS && active == 0) {
    forget(*managed, true);
    return result;
  }
  CUcontext same = nullptr;
  (void)ask_again([&] { return driver.cuDevicePrimaryCtxRetain(&same, device); });
  return result;
}

CUresult destroy_context(CUcontext context, CUresult (*destroy)(CUcontext), bool* was_managed) noexcept {
  const std::lock_guard guard(g_lock);
  const ManagedDevice* const managed = context != nullptr ? managed_in(context) : nullptr;
  *was_managed = managed != nullptr && !managed->is_primary;  // primary ones the driver refuses to destroy
  const bool has_passed = !*was_managed || managed->runtime->wait_idle().ok();
  const CUresult result = destroy(context);
  if (result == CUDA_SUCCESS && *was_managed) forget(*managed, has_passed);
  return result;
}

}  // namespace tidepool::shim
