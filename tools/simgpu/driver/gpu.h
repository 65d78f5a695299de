#pragma once

#include "tools/simgpu/driver/context.h"
#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/physical.h"
#include "tools/simgpu/machine/machine_file.h"

namespace simgpu {

class Pool;

/// One device of the machine as this process sees it. Protected by the driver's lock.
struct Gpu {
  Gpu(int number, const MachineFile& machine, const ProcessSlot& slot)
      : ordinal(number), config(machine->config.devices[number]), physical(number, machine, slot) {
    primary.gpu = this;
    primary.primary = true;
    primary.alive = false;
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const int ordinal;
  const DeviceConfig& config;
  PhysicalMemory physical;
  Context primary;
  /// Once an error has ended a context of this process on the device: all of them return it, and no new one
  /// begins.
  CUresult lost = CUDA_SUCCESS;
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;  ///< what cuMemAllocAsync takes memory from
  Pool* graph_pool = nullptr;    ///< the memory of graphs; null until there is some
};

}  // namespace simgpu
