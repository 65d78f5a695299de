// A context that begins and ends.

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

/// Memory that is written and read in the current context.
void use_memory(unsigned value) {
  const Memory memory(2 * kMiB);
  CUstream stream = nullptr;
  CALL(cuStreamCreateWithPriority)(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  CALL(cuMemsetD32Async)(memory.at, value, std::size_t{64}, stream);
  CALL(cuStreamSynchronize)(stream);
  unsigned read = 0;
  CALL(cuMemcpyDtoH_v2)(static_cast<void*>(&read), memory.at + 252, sizeof read);
  EXPECT(read == value);
  CALL(cuStreamDestroy_v2)(stream);
}

/// Memory in rows, and the handle that another process would open.
void use_rows(unsigned value) {
  CUdeviceptr rows = 0;
  std::size_t pitch = 0;
  CALL(cuMemAllocPitch_v2)(&rows, &pitch, std::size_t{1000}, std::size_t{3}, 4u);
  CALL(cuMemsetD32_v2)(rows, value, std::size_t{64});
  CUipcMemHandle handle{};
  CALL(cuIpcGetMemHandle)(&handle, rows);
  CALL(cuMemFree_v2)(rows);
}

/// Memory that the context ends with, more than fits; some of it has been written once only.
void leave_memory(unsigned value) {
  constexpr unsigned kBlocks = 5;
  CUdeviceptr blocks[kBlocks] = {}, small = 0;
  CALL(cuMemAlloc_v2)(&small, std::size_t{4096});
  for (const unsigned turn : {0u, 1u, 2u}) {
    for (unsigned i = 0; i < kBlocks; ++i) {
      if (turn == 0) CALL(cuMemAlloc_v2)(&blocks[i], 4 * kMiB);
      if (turn == 0) CALL(cuMemsetD32_v2)(blocks[i], value + i, std::size_t{64});
      unsigned read = 0;
      CALL(cuMemcpyDtoH_v2)(static_cast<void*>(&read), blocks[i] + 252, sizeof read);
      EXPECT(read == value + i);
    }
  }
}

/// What two devices give each other.
void use_peer() {
  int count = 0, may = 0;
  CALL(cuDeviceGetCount)(&count);
  if (count < 2) return;
  CUcontext here = nullptr, there = nullptr;
  CALL(cuCtxGetCurrent)(&here);
  CALL(cuDeviceCanAccessPeer)(&may, 0, 1);
  EXPECT(may == 1);
  CALL(cuDevicePrimaryCtxRetain)(&there, 1);
  CALL(cuCtxEnablePeerAccess)(there, 0u);
  CALL(cuCtxDisablePeerAccess)(there);
  CALL(cuDevicePrimaryCtxRelease_v2)(1);
}

}  // namespace

void contexts(unsigned round) {
  CUcontext primary = nullptr, own = nullptr;
  CALL(cuDevicePrimaryCtxRetain)(&primary, 0);
  CALL(cuCtxSetCurrent)(primary);
  use_memory(round);
  use_peer();
  CALL(cuCtxCreate_v4)(&own, static_cast<CUctxCreateParams*>(nullptr), 0u, 0);
  use_memory(round + 1);
  use_rows(round + 2);
  CALL(cuCtxPopCurrent_v2)(&own);
  use_memory(round + 3);  // its free waits for the other context too
  CALL(cuCtxDestroy_v2)(own);
  leave_memory(round);
  CALL(cuDevicePrimaryCtxReset_v2)(0);
  CALL(cuDevicePrimaryCtxRelease_v2)(0);
}

}  // namespace tidepool::faults
