#include "shim/ownership.h"

namespace tidepool::shim {

CUdevice current_device() noexcept {
  CUdevice device = -1;
  return active_driver().runtime.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

CUdevice device_of(CUcontext context) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS) return -1;
  const bool changes = current != context;
  if (changes && driver.cuCtxSetCurrent(context) != CUDA_SUCCESS) return -1;
  CUdevice device = -1;
  CUresult asked = driver.cuCtxGetDevice(&device);
  if (asked != CUDA_SUCCESS) asked = driver.cuCtxGetDevice(&device);
  if (changes) (void)driver.cuCtxSetCurrent(current);
  return asked == CUDA_SUCCESS ? device : -1;
}

CUdevice note_outside(CUdeviceptr at, std::size_t size, const char* library) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  OutsideMemory memory{at, Bytes(size), -1, nullptr, library};
  if (driver.cuCtxGetCurrent(&memory.context) != CUDA_SUCCESS) memory.context = nullptr;
  if (driver.cuCtxGetDevice(&memory.device) != CUDA_SUCCESS)
    return -1;  // not possible where memory was just given
  // A pool may be on another device.
  int device = -1;
  const auto ask = reinterpret_cast<decltype(&::cuPointerGetAttribute)>(
      active_driver().hooks[static_cast<std::size_t>(Hook::cuPointerGetAttribute)]);
  if (ask != nullptr && ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == CUDA_SUCCESS && device >= 0)
    memory.device = device;
  add_outside(memory);
  return memory.device;
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
