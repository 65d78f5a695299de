#pragma once

#include <cstdint>

#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

/// Nothing larger is taken for an image (the largest fat binary of CUDA 13's libraries has 0.2 GB).
inline constexpr std::uint64_t kLargestImage = std::uint64_t{4} << 30;

/// No PTX text may be longer.
inline constexpr std::uint64_t kLargestPtx = std::uint64_t{128} << 20;

/// True if every page of these bytes can be read now. Where the kernel refuses to say (a sandbox without
/// process_vm_readv), true. Thread-safe; async-signal-safe.
bool readable(const void* address, std::uint64_t size);

/// How far an image reaches whose pointer came without a length, as with cuModuleLoadData.
/// Trusted for it are, once the memory they lead to was found readable: the container's pointer in the
/// wrapper of nvcc's start-up code, the sizes in a container's header, the section and program headers of a
/// cubin, and the NUL at the end of PTX. What lies inside is checked against these bounds alone.
Problem find_extent(const void* image, Bytes* out);

}  // namespace simgpu::fatbin
