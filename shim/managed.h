#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/cuda/driver_device.h"
#include "allocator/runtime.h"

namespace tidepool::shim {

/// A device whose memory is managed. Never changed, and never deleted: another thread may be looking at it.
struct ManagedDevice {
  runtime::Runtime* runtime;
  runtime::DriverDevice* device;
  CUcontext context;  ///< the primary one, or one that the program made (docs/explanation/decisions/0034)
  bool is_primary;
  CUdevice ordinal;
  unsigned slot;  ///< its number among the managed devices, from 0; serves again once the device is forgotten
};

namespace detail {
struct ManagedTable {
  /// What slot 0 has while no other is in use, which is so in nearly every process; null otherwise.
  std::atomic<runtime::Runtime*> only{nullptr};
  std::atomic<unsigned> end{0};  ///< slots in use are below
  std::array<std::atomic<const ManagedDevice*>, runtime::kMostDevices> slots{};
};
extern ManagedTable g_managed;
}  // namespace detail

/// The runtime of the process' only managed device, or null: none is managed yet, or several are (see
/// any_managed). Hook-safe, one load.
inline runtime::Runtime* only_managed() noexcept {
  return detail::g_managed.only.load(std::memory_order_acquire);
}

/// True once memory of some device is managed. Hook-safe, one load.
inline bool any_managed() noexcept {
  return detail::g_managed.end.load(std::memory_order_acquire) != 0;
}

/// The device in a slot; null if there is none.
inline const ManagedDevice* managed_in_slot(unsigned slot) noexcept {
  return detail::g_managed.slots[slot].load(std::memory_order_acquire);
}

/// Calls `visit(device)` for each managed device, by slot. Hook-safe.
template <class Visit>
void for_each_managed(Visit&& visit) noexcept {
  const unsigned end = detail::g_managed.end.load(std::memory_order_acquire);
  for (unsigned slot = 0; slot < end; ++slot) {
    if (const ManagedDevice* device = managed_in_slot(slot)) visit(*device);
  }
}

/// The first managed device for which `is(device)` holds; null if there is none. Hook-safe.
template <class Is>
const ManagedDevice* find_managed(Is&& is) noexcept {
  const ManagedDevice* found = nullptr;
  for_each_managed([&](const ManagedDevice& device) {
    if (found == nullptr && is(device)) found = &device;
  });
  return found;
}

/// The managed device that owns the address, or null. Hook-safe.
inline const ManagedDevice* owner_device(std::uint64_t address) noexcept {
  return find_managed([&](const ManagedDevice& device) { return device.runtime->owns(address); });
}

/// The runtime that owns the address, or null. Hook-safe.
inline runtime::Runtime* owner(std::uint64_t address) noexcept {
  if (runtime::Runtime* only = only_managed()) return only->owns(address) ? only : nullptr;
  const ManagedDevice* const device = owner_device(address);
  return device != nullptr ? device->runtime : nullptr;
}

/// The managed device with that context, or with that ordinal; null if it is not managed.
inline const ManagedDevice* managed_in(CUcontext context) noexcept {
  return find_managed([&](const ManagedDevice& device) { return device.context == context; });
}
inline const ManagedDevice* managed_on(CUdevice ordinal) noexcept {
  return find_managed([&](const ManagedDevice& device) { return device.ordinal == ordinal; });
}

/// Why somebody asks for a managed device.
enum class For : bool {
  kAnswer,  ///< a context of the program's own is not managed for that
  kMemory,  ///< memory of the program's, which belongs to the context
};

/// The device of that context, if the context is the device's primary one, or one of the program's own where
/// there is no primary one; from the first such call on the device is managed, in that context. Memory of
/// other contexts is passed through (one message). Null where it is not managed.
const ManagedDevice* manage(CUcontext context, For what = For::kAnswer) noexcept;
/// The same for the calling thread's current context.
const ManagedDevice* managed_here(For what = For::kAnswer) noexcept;

/// True if the program is to see a device as large as the budget: in a context whose memory is managed or may
/// still come to be; with no context of the device for each such device.
bool is_limited(CUdevice device) noexcept;

/// From here on the peer may reach the device's memory, also if the device is managed only later. Waits for
/// the device's slow path the first time.
CUresult let_peer_in(CUdevice device, CUdevice peer) noexcept;

/// Around a fork: no other thread is just then making a device a managed one.
void lock_for_fork() noexcept;
void unlock_after_fork() noexcept;

/// Runs `reset()`, the driver's way to end everything in the device's primary context, once the device's work
/// has ended. If it succeeds the device's memory goes with it, and everything that was taken for it; if it
/// fails the program still has all of its memory.
CUresult reset_primary(CUdevice device, CUresult (*reset)(CUdevice)) noexcept;
/// Runs `release()`, the driver's way to give up one of the program's references to the primary context. If
/// it was the last the context ends, as it would without us, and the device's memory with it.
CUresult release_primary(CUdevice device, CUresult (*release)(CUdevice)) noexcept;

/// Runs `destroy()`, the driver's way to end a context. If it ends one that is managed the device's memory
/// goes with it, as by reset_primary(). `*was_managed` tells.
CUresult destroy_context(CUcontext context, CUresult (*destroy)(CUcontext), bool* was_managed) noexcept;

/// A stream argument as the runtime of its own device names it.
inline runtime::StreamHandle stream_of(CUstream stream, bool per_thread) noexcept {
  if (stream == nullptr) return per_thread ? runtime::kPerThreadStream : runtime::kLegacyStream;
  return runtime::StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

/// The same as any device's runtime names it. `home`: the device whose stream it is.
inline runtime::StreamHandle stream_for(const ManagedDevice& device, const ManagedDevice& home,
                                        CUstream stream, bool per_thread) noexcept {
  const runtime::StreamHandle handle = stream_of(stream, per_thread);
  return &device == &home ? handle : runtime::stream_of_peer(handle, home.slot);
}

}  // namespace tidepool::shim
