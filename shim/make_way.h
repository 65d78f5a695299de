#pragma once

#include <cuda.h>

#include <cstddef>

#include "allocator/support/units.h"

namespace tidepool::shim {

/// Before the driver gives so much memory of a device for something that is not managed: blocks make room for
/// it, so that the budget holds.
void make_way(CUdevice device, Bytes size) noexcept;

/// Memory that is not managed has changed on the device: what is managed has what remains of the budget.
void settle_outside(CUdevice device) noexcept;
/// The same where it is not known of which device.
void settle_outside_of_all() noexcept;

/// Gives some of what is managed back to the driver, for a call that it refused for want of memory. False:
/// nothing is managed on the current device, or nothing could be given.
bool give_way() noexcept;

/// Runs `call()`, and once more where the driver had no memory for it but could be given some: modules that
/// are loaded, graphs, libraries.
template <class Call>
CUresult with_room(Call&& call) noexcept {
  const CUresult result = call();
  return result == CUDA_ERROR_OUT_OF_MEMORY && give_way() ? call() : result;
}

}  // namespace tidepool::shim
