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

/// The managed device's primary context, for pointer queries.
CUcontext managed_context() noexcept;
CUdevice managed_device() noexcept;

/// After the program has reset the managed device: its memory is gone.
void forget_managed(CUdevice device) noexcept;

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
