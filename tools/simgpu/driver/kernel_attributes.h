#pragma once

#include "tools/simgpu/driver/driver.h"

namespace simgpu {

/// cuFuncGetAttribute of a kernel on a device, from the device's image; a kernel without image, or in PTX,
/// whose registers nobody has counted yet, gets the numbers of a small kernel.
CUresult kernel_attribute(int* value, CUfunction_attribute attribute, const Kernel& kernel, const Gpu& gpu);

/// cuFuncSetAttribute: the attributes that may be set, as far as the device can do it.
CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, const Gpu& gpu, Kernel& kernel);

/// The most threads of a block that a launch may have: as __launch_bounds__ says, and as many as there are
/// registers for.
int max_block_threads(const Kernel& kernel, const Gpu& gpu);

/// cuFuncGetParamInfo. CUDA_ERROR_NOT_SUPPORTED where neither image nor body say.
CUresult param_info(const Kernel& kernel, std::size_t index, std::size_t* offset, std::size_t* size);

}  // namespace simgpu
