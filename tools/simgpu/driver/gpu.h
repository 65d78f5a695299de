#pragma once

#include "tools/simgpu/driver/context.h"
#include "tools/simgpu/driver/physical.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu {

/// One device of the machine as this process sees it. Protected by the driver's lock.
struct Gpu {
  Gpu(int number, Machine& machine)
      : ordinal(number),
        config(machine.config.devices[number]),
        physical(number, config.memory_bytes, machine.config.seed + static_cast<unsigned>(number),
                 &machine.use[static_cast<std::size_t>(number)]) {
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
};

}  // namespace simgpu
