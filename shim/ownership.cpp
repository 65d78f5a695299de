#include "shim/ownership.h"

namespace tidepool::shim {

CUdevice current_device() noexcept {
  CUdevice device = -1;
  return active_driver().runtime.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

void note_outside(CUdeviceptr at, std::size_t size, const char* library) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  OutsideMemory memory{at, Bytes(size), -1, nullptr, library};
  if (driver.cuCtxGetCurrent(&memory.context) != CUDA_SUCCESS) memory.context = nullptr;
  if (driver.cuCtxGetDevice(&memory.device) != CUDA_SUCCESS)
    return;  // not possible where memory was just given
  add_outside(memory);
  settle_outside(memory.device);
}

CUcontext primary_context(CUdevice device) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  unsigned flags = 0;
  int active = 0;
  // Each is asked once more where it fails: what is allocated meanwhile would be taken for another context's.
  CUresult asked = driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (asked != CUDA_SUCCESS) asked = driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (asked != CUDA_SUCCESS || active == 0) return nullptr;
  CUcontext primary = nullptr;
  asked = driver.cuDevicePrimaryCtxRetain(&primary, device);
  if (asked != CUDA_SUCCESS) asked = driver.cuDevicePrimaryCtxRetain(&primary, device);
  if (asked != CUDA_SUCCESS) return nullptr;
  (void)driver.cuDevicePrimaryCtxRelease_v2(device);
  return primary;
}

}  // namespace tidepool::shim
