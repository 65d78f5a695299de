#pragma once

#include <cstddef>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"

namespace simgpu {

/// Reads the file of cuModuleLoad and cuLibraryLoadFromFile. CUDA_ERROR_FILE_NOT_FOUND where there is none or
/// it cannot be read; CUDA_ERROR_INVALID_IMAGE for an empty one, or one larger than any image.
CUresult read_image_file(const char* path, std::vector<std::byte>* out);

}  // namespace simgpu
