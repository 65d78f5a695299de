#pragma once

#include "tools/simgpu/machine/machine.h"

namespace simgpu {

/// What a device can do by its compute capability. Source: CUDA C++ Programming Guide, "Compute
/// Capabilities", table "Technical Specifications per Compute Capability".
struct CapabilityLimits {
  int number;              ///< ten times the major plus the minor version
  int threads_per_sm;      ///< resident threads of a multiprocessor
  int blocks_per_sm;       ///< resident blocks of it
  int shared_per_sm;       ///< bytes of shared memory of it
  int shared_per_block;    ///< bytes that a block may ask for, with its attribute set
  int reserved_per_block;  ///< bytes that the system takes of each block's shared memory
};

/// Of the device's compute capability, or of the nearest older one that is known.
const CapabilityLimits& limits_of(const DeviceConfig& config);

}  // namespace simgpu
