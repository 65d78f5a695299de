// The cases of door_probe about contexts that the program makes, where nothing is managed in another.

#include <thread>
#include <utility>
#include <vector>

#include "tests/shim/context_blocks.h"

namespace tidepool::test {
namespace {

std::size_t told_total() {
  std::size_t free = 0;
  std::size_t total = 0;
  std::size_t device_total = 0;
  EXPECT(DRIVER(cuDeviceTotalMem_v2)(&device_total, 0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS);
  EXPECT(total == device_total && free <= total);
  return total;
}

// Memory of a context that the program made for itself, where it uses no other. With the context it ends, and
// the next one, of whichever kind, begins afresh.
void own_context() {
  constexpr std::size_t kBudget = 32 * kMiB;
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    CUstream stream = nullptr;
    const CUcontext own = other_context(&stream);
    EXPECT(told_total() == kBudget);
    const std::vector<CUdeviceptr> blocks = filled_blocks();
    EXPECT(told_total() == kBudget);
    CUcontext owner = nullptr;
    EXPECT(DRIVER(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, blocks[0]) == CUDA_SUCCESS);
    EXPECT(owner == own);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      EXPECT(DRIVER(cuMemsetD8Async)(blocks[i], static_cast<unsigned char>(i + 2), kBlock / 2, stream) ==
             CUDA_SUCCESS);
    EXPECT(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::vector<unsigned char> bytes(kBlock);
      // From a thread that has no context.
      std::thread([&] {
        EXPECT(DRIVER(cuCtxSetCurrent)(own) == CUDA_SUCCESS);
        EXPECT(DRIVER(cuMemcpyDtoH_v2)(bytes.data(), blocks[i], kBlock) == CUDA_SUCCESS);
      }).join();
      EXPECT(bytes[0] == i + 2 && bytes[kBlock / 2 - 1] == i + 2);
      EXPECT(bytes[kBlock / 2] == i + 1 && bytes[kBlock - 1] == i + 1);
    }
    // Memory of a pool belongs to no context of the program's own.
    CUdeviceptr pooled = 0;
    EXPECT(DRIVER(cuMemAllocAsync)(&pooled, kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFree_v2)(blocks[3]) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFreeAsync)(blocks[4], stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFreeAsync)(pooled, stream) == CUDA_SUCCESS);
    if (round == 1) EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);  // not this one
    if (round == 2)                                                                 // ends with the context
      EXPECT(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CUresult ended = DRIVER(cuCtxDestroy_v2)(own);
    if (ended == CUDA_ERROR_UNKNOWN) {  // told to fail once: nothing has ended
      EXPECT(told_total() == kBudget);
      EXPECT(DRIVER(cuMemsetD8_v2)(blocks[5], 50, kBlock) == CUDA_SUCCESS && holds(blocks[5], 50));
      ended = DRIVER(cuCtxDestroy_v2)(own);
    }
    EXPECT(ended == CUDA_SUCCESS);
    CUdeviceptr none = 0;
    EXPECT(DRIVER(cuMemAlloc_v2)(&none, kBlock) != CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(&none, blocks[0], 8) != CUDA_SUCCESS);
  }
  start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT(holds(blocks[i], static_cast<unsigned char>(i + 1)));
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
}

// One device is managed in one context: memory of a second one is the driver's, and works as ever.
void second_context() {
  start();
  EXPECT(told_total() == 32 * kMiB);
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  CUstream stream = nullptr;
  (void)other_context(&stream);
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(block, 1, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
  EXPECT(told_total() > 1024 * kMiB);  // the device's own
}

// The other way round: releases and resets of the primary context end nothing that is managed in another.
void own_context_first() {
  CUstream stream = nullptr;
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  const CUcontext own = other_context(&stream);
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  start();
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(block, 1, 4 * kMiB) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 1;
  EXPECT(DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active) == CUDA_SUCCESS && active == 0);
  EXPECT(DRIVER(cuCtxSetCurrent)(own) == CUDA_SUCCESS);
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT(holds(blocks[i], static_cast<unsigned char>(i + 1)));
}

// On two devices, of which one is left before the other.
void own_contexts_of_two() {
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  CUcontext contexts[2] = {};
  std::vector<CUdeviceptr> blocks[2];
  for (int device = 0; device < 2; ++device) {
    EXPECT(DRIVER(cuCtxCreate_v4)(&contexts[device], nullptr, 0, device) == CUDA_SUCCESS);
    blocks[device] = filled_blocks();
  }
  for (std::size_t i = 0; i < blocks[0].size(); ++i) {
    EXPECT(DRIVER(cuMemcpyDtoD_v2)(blocks[1][i], blocks[0][15 - i], kBlock) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
    EXPECT(holds(blocks[1][i], static_cast<unsigned char>(16 - i)));
  }
  EXPECT(DRIVER(cuCtxDestroy_v2)(contexts[1]) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(contexts[0]) == CUDA_SUCCESS);
  for (std::size_t i = 0; i < blocks[0].size(); ++i)
    EXPECT(holds(blocks[0][i], static_cast<unsigned char>(i + 1)));
  EXPECT(DRIVER(cuCtxCreate_v4)(&contexts[1], nullptr, 0, 1) == CUDA_SUCCESS);
  blocks[1] = filled_blocks();
  for (CUcontext context : contexts) EXPECT(DRIVER(cuCtxDestroy_v2)(context) == CUDA_SUCCESS);
}

}  // namespace

bool run_own_context_case(std::string_view name) {
  constexpr std::pair<std::string_view, void (*)()> kCases[] = {{"own_context", own_context},
                                                                {"own_contexts_of_two", own_contexts_of_two},
                                                                {"second_context", second_context},
                                                                {"own_context_first", own_context_first}};
  for (const auto& [known, run] : kCases) {
    if (known == name) return run(), true;
  }
  return false;
}

}  // namespace tidepool::test
