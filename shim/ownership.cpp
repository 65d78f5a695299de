#include "shim/ownership.h"

#include "shim/ask.h"
namespace tidepool::shim {

CUdevice current_device() noexcept {
  CUdevice device = -1;
  const CUresult asked = ask_again([&] { return active_driver().runtime.cuCtxGetDevice(&device); });
  return asked == CUDA_SUCCESS ? device : -1;
}

CUdevice device_of(CUcontext context) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  CUcontext current = nullptr;
  if (ask_again([&] { return driver.cuCtxGetCurrent(&current); }) != CUDA_SUCCESS) return -1;
  const bool changes = current != context;
  if (changes && ask_again([&] { return driver.cuCtxSetCurrent(context); }) != CUDA_SUCCESS) return -1;
  const CUdevice device = current_device();
  if (changes) (void)ask_again([&] { return driver.cuCtxSetCurrent(current); });
  return device;
}

CUdevice device_of_stream(CUstream stream) noexcept {
  const bool is_current = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (is_current) return current_device();
  CUcontext context = nullptr;
  const auto ask = active_driver().runtime.cuStreamGetCtx;
  const CUresult asked = ask_again([&] { return ask(stream, &context); });
  return asked == CUDA_SUCCESS ? device_of(context) : current_device();
}

CUdevice note_outside(CUdeviceptr at, std::size_t size, const char* library) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  OutsideMemory memory{at, Bytes(size), -1, nullptr, library};
  if (ask_again([&] { return driver.cuCtxGetCurrent(&memory.context); }) != CUDA_SUCCESS)
    memory.context = nullptr;
  memory.device = current_device();
  if (memory.device < 0) return -1;  // not possible where memory was just given
  // A pool may be on another device.
  int device = -1;
  const auto ask = reinterpret_cast<decltype(&::cuPointerGetAttribute)>(
      active_driver().hooks[static_cast<std::size_t>(Hook::cuPointerGetAttribute)]);
  if (ask != nullptr && ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == CUDA_SUCCESS && device >= 0)
    memory.device = device;
  add_outside(memory);
  return memory.device;
}

bool can_reach(CUdevice user, CUdevice owner) noexcept {
  const auto ask = active_driver().cuDeviceCanAccessPeer;
  int can = 0;
  return ask != nullptr && ask(&can, user, owner) == CUDA_SUCCESS && can != 0;
}

CUcontext primary_context(CUdevice device) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  unsigned flags = 0;
  int active = 0;
  // What is allocated without an answer would be taken for another context's.
  CUresult asked = ask_again([&] { return driver.cuDevicePrimaryCtxGetState(device, &flags, &active); });
  if (asked != CUDA_SUCCESS || active == 0) return nullptr;
  CUcontext primary = nullptr;
  asked = ask_again([&] { return driver.cuDevicePrimaryCtxRetain(&primary, device); });
  if (asked != CUDA_SUCCESS) return nullptr;
  (void)ask_again([&] { return driver.cuDevicePrimaryCtxRelease_v2(device); });
  return primary;
}

}  // namespace tidepool::shim
