#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/shim/probe.h"

/// What cases about contexts share.
namespace tidepool::test {

// Twice the budget in blocks of the current context, each filled with its number plus one.
constexpr std::size_t kBlock = 4 * kMiB;
inline std::vector<CUdeviceptr> filled_blocks() {
  std::vector<CUdeviceptr> blocks(16);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT(DRIVER(cuMemAlloc_v2)(&blocks[i], kBlock) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8_v2)(blocks[i], static_cast<unsigned char>(i + 1), kBlock) == CUDA_SUCCESS);
  }
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  return blocks;
}
inline bool holds(CUdeviceptr block, unsigned char value) {
  static std::vector<unsigned char> bytes(kBlock);  // one for all: memory is counted in device_reset()
  EXPECT(DRIVER(cuMemcpyDtoH_v2)(bytes.data(), block, kBlock) == CUDA_SUCCESS);
  return std::count(bytes.begin(), bytes.end(), value) == static_cast<long>(kBlock);
}

// A context of the program's own, current from here on, with a stream in it.
inline CUcontext other_context(CUstream* stream) {
  CUcontext context = nullptr;
  EXPECT(DRIVER(cuCtxCreate_v4)(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuStreamCreate)(stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  return context;
}

}  // namespace tidepool::test
