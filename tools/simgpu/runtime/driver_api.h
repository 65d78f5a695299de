#pragma once

/// cuda.h and cudaProfiler.h, with what they call deprecated: the runtime offers it too.
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>
#include <cudaProfiler.h>
