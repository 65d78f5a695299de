#pragma once

/// cuda.h with every versioned name visible: the old ABI as cuMemAlloc, the current one as cuMemAlloc_v2, the
/// per-thread twin as cuMemcpy_ptds. Without this switch the header renames the base names.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>
#include <cudaProfiler.h>
