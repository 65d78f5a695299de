#pragma once

#include "tools/simgpu/driver/cuda_api.h"

namespace simgpu {

/// Takes the options of cuModuleLoadDataEx and cuLibraryLoadData: nothing is compiled here, so they change
/// nothing, and what they ask back is answered as by a compiler that had nothing to say: empty logs, no time.
/// CUDA_ERROR_INVALID_VALUE for unknown options and missing lists.
CUresult take_jit_options(const CUjit_option* options, void** values, unsigned count);

}  // namespace simgpu
