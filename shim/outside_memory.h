#pragma once

#include <cuda.h>

#include "allocator/support/units.h"

namespace tidepool::shim {

/// Device memory that the driver gave through our hooks and that is not managed: of CUDA libraries, of
/// contexts of the program's own. It stays on the device, so what is managed has that much less room.
///
/// Thread-safe; short locks, no driver call. May allocate.
struct OutsideMemory {
  CUdeviceptr at;
  Bytes size;
  CUdevice device;
  CUcontext context;
  const char* library;  ///< static name of the CUDA library that asked for it; "" for the program
};

/// Amounts of one device.
struct OutsideBytes {
  Bytes libraries;
  Bytes program;
  Bytes graphs;  ///< graph_memory.h
  [[nodiscard]] Bytes all() const noexcept { return libraries + program + graphs; }
};

/// Counts it. A second one at the same address takes the place of the first, whose free was not seen.
void add_outside(const OutsideMemory& memory) noexcept;

/// Before the memory is freed: its address may come back on another thread before the free has returned. The
/// size is zero where nothing is known of the address. A free that fails puts it back by add_outside().
OutsideMemory remove_outside(CUdeviceptr at) noexcept;

/// The context is gone, and its memory with it.
void forget_outside_of(CUcontext context) noexcept;

/// Counts memory that is known elsewhere (outside_handles.h), or no longer counts it.
void count_outside(CUdevice device, Bytes size, const char* library, bool more) noexcept;

/// So much is held by graphs of the device from here on.
void set_graph_bytes(CUdevice device, Bytes held) noexcept;

/// What is held now.
OutsideBytes outside_bytes(CUdevice device) noexcept;

/// Around a fork: no other thread is just then changing it, and a child begins with nothing. The lock is
/// never held across a call of the driver, so a fork inside one finds it free.
void lock_outside_for_fork() noexcept;
void unlock_outside_after_fork(bool is_child) noexcept;

}  // namespace tidepool::shim
