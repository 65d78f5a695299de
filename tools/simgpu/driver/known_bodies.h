#pragma once

#include <string_view>

#include "tools/simgpu/driver/kernel_object.h"

/// CPU bodies that simgpu brings with it, by the exact name of a kernel: for kernels that libraries carry in
/// their images, and whose results must be exact because somebody believes them. A body that the program
/// gives (simgpuLibrarySetBody) goes before these.
namespace simgpu {

/// Must a kernel of this name have a body, so that it is never launched as a digest?
bool has_known_body(std::string_view name);

/// The body for this kernel, or null: there is none, or the kernel has other parameters.
const SimgpuKernelBody* known_body_for(const Kernel& kernel);

}  // namespace simgpu
