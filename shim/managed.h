#pragma once

#include <cuda.h>

#include <cstdint>

#include "allocator/runtime.h"

namespace tidepool::shim {

/// The runtime of the process' managed device, or null: nothing was allocated yet. Hook-safe, one load.
runtime::Runtime* managed() noexcept;

/// The runtime, if the calling thread's current context is the primary context of the managed device. The
/// first call with a primary context makes that context's device the managed one; memory of other devices and
/// contexts is passed through (one message).
runtime::Runtime* managed_here() noexcept;

/// True if the program is to see a device as large as the budget: the answer that cuMemGetInfo has, where it
/// has one; else for the managed device, or for any while none is managed yet.
bool is_limited(CUdevice device) noexcept;

/// The managed device's primary context; null if nothing is managed (a reset on another thread).
CUcontext managed_context() noexcept;
/// The managed device; -1 if nothing is managed.
CUdevice managed_device() noexcept;

/// Around a fork: no other thread is just then making a device the managed one.
void lock_for_fork() noexcept;
void unlock_after_fork() noexcept;

/// Before the program resets the managed device: its memory goes, and everything that was taken for it. Null,
/// or, where the device is in an error and gives nothing back, the runtime to abandon() after the reset.
runtime::Runtime* forget_managed(CUdevice device) noexcept;

/// The runtime that owns the address, or null.
inline runtime::Runtime* owner(std::uint64_t address) noexcept {
  runtime::Runtime* runtime = managed();
  return runtime != nullptr && runtime->owns(address) ? runtime : nullptr;
}

/// A stream argument as the runtime names it.
inline runtime::StreamHandle stream_of(CUstream stream, bool per_thread) noexcept {
  if (stream == nullptr) return per_thread ? runtime::kPerThreadStream : runtime::kLegacyStream;
  return runtime::StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}

}  // namespace tidepool::shim
