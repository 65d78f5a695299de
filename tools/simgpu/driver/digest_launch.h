#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/digest/ranges.h"
#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/guard.h"

namespace simgpu {

/// Whether a kernel without a CPU body can be launched as a digest, from now on. CUDA_ERROR_NOT_SUPPORTED,
/// with a line in the report, if its parameters are not known, the role file says that only a body will do,
/// or that file cannot be used.
CUresult prepare_digest(Driver& d, Kernel& kernel);

/// Runs a prepared launch as a digest, now. False if an illegal access ended it.
bool run_digest(Driver& d, const Launch& launch, std::uint64_t call, Fault* fault);

/// What a prepared launch that is called now will touch, as far as its parameters say: not what tables in
/// memory point to, as their contents may not have come yet.
std::vector<digest::Touched> digest_touches(Driver& d, const Launch& launch, std::uint64_t call);

/// A copy, a memset or declared writes of a body were done; all that the program did to its memory is noted.
void note_copy(Driver& d, const Copy& copy, std::uint64_t call);
void note_fill(Driver& d, const Fill& fill, std::uint64_t call);
void note_write(Driver& d, std::uint64_t address, std::uint64_t bytes, std::uint64_t call);
/// For a body that declared more than was kept: everything that its pointers point to.
void note_all_written(Driver& d, const Launch& launch, std::uint64_t call);

}  // namespace simgpu
