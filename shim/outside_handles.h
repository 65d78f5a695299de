#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "allocator/support/units.h"

namespace tidepool::shim {

// Physical memory that the program or a CUDA library creates and maps by itself (cuMemCreate, cuMemMap; NCCL
// and PyTorch's expandable segments do). It is not managed; as long as a handle or a mapping holds it, it is
// part of outside_bytes(). Memory that was imported is counted by who created it.
//
// Thread-safe; short locks, no driver call. May allocate.

/// A handle of memory on the device was created. `library` as in OutsideMemory.
void add_handle(CUmemGenericAllocationHandle handle, Bytes size, CUdevice device,
                const char* library) noexcept;

/// The memory behind a handle, to be asked before a release: once it has returned, the handle's number may
/// mean other memory. 0: none that is counted.
std::uint64_t memory_of_handle(CUmemGenericAllocationHandle handle) noexcept;
/// The handle of that memory was released.
void remove_handle(CUmemGenericAllocationHandle handle, std::uint64_t memory) noexcept;

/// The handle was mapped at an address.
void add_mapping(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept;
/// A handle was taken of what is mapped at an address.
void retain_mapping(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept;

struct OutsideMapping {
  CUdeviceptr at;
  std::uint64_t number;  ///< of all mappings that the process ever made
  std::uint64_t memory;
};
/// What is mapped within a range, to be asked before it is unmapped.
std::vector<OutsideMapping> mappings_within(CUdeviceptr at, Bytes size) noexcept;
/// They were unmapped.
void remove_mappings(const std::vector<OutsideMapping>& mappings) noexcept;

/// Around a fork, as for outside_memory.h, whose lock is taken inside this one.
void lock_handles_for_fork() noexcept;
void unlock_handles_after_fork(bool is_child) noexcept;

}  // namespace tidepool::shim
