#include "shim/managed.h"

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "allocator/cuda/driver_device.h"
#include "allocator/support/host_memory.h"
#include "allocator/support/message.h"
#include "shim/observe.h"
#include "shim/ownership.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/record.h"

namespace tidepool::shim {
namespace {

struct Managed {
  runtime::Runtime* runtime;
  runtime::DriverDevice* device;
};

constinit std::atomic<Managed*> g_managed{nullptr};
constinit std::mutex g_lock;
bool g_gave_up = false;       // g_lock
bool g_said_foreign = false;  // g_lock

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

void give_up(CUdevice ordinal, int code) noexcept {
  report<Msg::TP1011>(ordinal, code, options().strict ? kRunsWithout : kOnlyWatched);
  if (!options().strict) observe_memory(false);
}

Managed* start(const runtime::DriverTable& driver, CUdevice ordinal) noexcept {
  const auto device = runtime::DriverDevice::create(driver, ordinal);
  if (!device.ok()) {
    give_up(ordinal, device.error().code());
    return nullptr;
  }
  if (const CUresult refused = is_refused_memory(**device); refused != CUDA_SUCCESS) {
    give_up(ordinal, static_cast<int>(refused));
    return nullptr;
  }
  const auto runtime = runtime::Runtime::create(**device, options(), host_memory());
  if (!runtime.ok()) {
    give_up(ordinal, runtime.error().code());
    return nullptr;
  }
  if (runtime::captures_under_way.load() > 0) (*runtime)->capture_begins();
  start_recording(**runtime, ordinal);
  warn_of_mps(ordinal);
  return new (std::nothrow) Managed{*runtime, *device};
}

}  // namespace

runtime::Runtime* managed() noexcept {
  const Managed* managed = g_managed.load(std::memory_order_acquire);
  return managed != nullptr ? managed->runtime : nullptr;
}

CUcontext managed_context() noexcept {
  const Managed* managed = g_managed.load(std::memory_order_acquire);
  return managed != nullptr ? managed->device->context() : nullptr;
}
CUdevice managed_device() noexcept {
  const Managed* managed = g_managed.load(std::memory_order_acquire);
  return managed != nullptr ? managed->device->ordinal() : -1;
}

runtime::Runtime* managed_here() noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext context = nullptr;
  // Asked once more where it fails: memory that is not managed for a passing error would be outside for good.
  CUresult asked = driver.cuCtxGetCurrent(&context);
  if (asked != CUDA_SUCCESS) asked = driver.cuCtxGetCurrent(&context);
  if (asked != CUDA_SUCCESS || context == nullptr) return nullptr;
  if (const Managed* managed = g_managed.load(std::memory_order_acquire)) {
    return managed->device->context() == context ? managed->runtime : nullptr;
  }
  if (manages_nothing()) return nullptr;
  const std::lock_guard guard(g_lock);
  if (const Managed* managed = g_managed.load(std::memory_order_acquire)) {
    return managed->device->context() == context ? managed->runtime : nullptr;
  }
  if (g_gave_up) return nullptr;
  CUdevice device = 0;
  asked = driver.cuCtxGetDevice(&device);
  if (asked != CUDA_SUCCESS) asked = driver.cuCtxGetDevice(&device);
  if (asked != CUDA_SUCCESS) return nullptr;
  // The primary context is what the CUDA runtime uses.
  if (primary_context(device) != context) {
    if (!std::exchange(g_said_foreign, true)) report<Msg::TP1010>();
    return nullptr;
  }
  Managed* managed = start(driver, device);
  g_gave_up = managed == nullptr;
  g_managed.store(managed, std::memory_order_release);
  return managed != nullptr ? managed->runtime : nullptr;
}

bool is_limited(CUdevice device) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext context = nullptr;
  CUdevice current = 0;
  if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
      driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
    return managed_here() != nullptr;
  }
  if (const Managed* managed = g_managed.load(std::memory_order_acquire)) {
    return managed->device->ordinal() == device;
  }
  const std::lock_guard guard(g_lock);
  return !g_gave_up && !manages_nothing();
}

// A driver may fork inside a call of ours (to start its helpers), with the lock held by this very thread.
void lock_for_fork() noexcept {
  if (t_depth == 0) g_lock.lock();
}
void unlock_after_fork() noexcept {
  if (t_depth == 0) g_lock.unlock();
}

runtime::Runtime* forget_managed(CUdevice device) noexcept {
  const std::lock_guard guard(g_lock);
  Managed* managed = g_managed.load(std::memory_order_acquire);
  if (managed == nullptr || managed->device->ordinal() != device) return nullptr;
  g_managed.store(nullptr, std::memory_order_release);
  if (!managed->device->synchronize().ok()) return managed->runtime;
  // Handles of physical memory and reservations belong to no context: a reset would leave them behind.
  delete managed->runtime;
  return nullptr;
}

}  // namespace tidepool::shim
