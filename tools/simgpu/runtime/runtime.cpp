#include "tools/simgpu/runtime/runtime.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "tools/simgpu/runtime/unsupported.h"

namespace simgpu::runtime {
namespace {

struct Process {
  DriverTable legacy, per_thread;
  decltype(&::cuGetProcAddress_v2) lookup = nullptr;
  bool installed = false;
  cudaError_t state = cudaErrorInsufficientDriver;
  int devices = 0;
  std::unique_ptr<std::atomic<CUcontext>[]> primary;  ///< by device; null: not retained
  std::mutex mutex;
};

/// What this library knows of a thread. Trivial, so that a thread may call until its very end.
struct Thread {
  int device = 0;               ///< set by cudaSetDevice
  bool bound = false;           ///< has had a context
  CUcontext context = nullptr;  ///< the primary context that was made current here
  cudaError_t last_error = cudaSuccess;
};

std::atomic<bool> g_exiting{false};
constinit thread_local Thread t_thread;

void start(Process* p) {
  p->installed = load_driver(&p->legacy, &p->per_thread, &p->lookup);
  if (!p->installed) return;
  CUresult result = p->legacy.cuInit(0);
  if (result == CUDA_SUCCESS) result = p->legacy.cuDeviceGetCount(&p->devices);
  p->state = as_runtime(result);
  p->primary = std::make_unique<std::atomic<CUcontext>[]>(static_cast<std::size_t>(p->devices));
}

/// Loads the driver once. Leaked, so that calls from other libraries' destructors still find it.
Process& process() {
  static Process* made = [] {
    auto* p = new Process;
    start(p);
    std::atexit([] { g_exiting.store(true); });
    return p;
  }();
  return *made;
}

}  // namespace

const DriverTable* driver(bool per_thread, cudaError_t* why) noexcept {
  Process& p = process();
  *why = p.state;
  if (p.state != cudaSuccess) return nullptr;
  return per_thread ? &p.per_thread : &p.legacy;
}

const DriverTable* installed_driver() noexcept {
  Process& p = process();
  return p.installed ? &p.legacy : nullptr;
}

decltype(&::cuGetProcAddress_v2) driver_lookup() noexcept {
  return process().lookup;
}

CUresult current_device(const DriverTable& d, int* device) noexcept {
  CUdevice found = 0;
  const CUresult result = d.cuCtxGetDevice(&found);
  const bool none = result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (result != CUDA_SUCCESS && !none) return result;
  *device = none ? t_thread.device : found;
  return CUDA_SUCCESS;
}

CUresult primary_context(const DriverTable& d, int device, CUcontext* out) noexcept {
  Process& p = process();
  if (device < 0 || device >= p.devices) return CUDA_ERROR_INVALID_DEVICE;
  std::atomic<CUcontext>& slot = p.primary[static_cast<std::size_t>(device)];
  *out = slot.load(std::memory_order_acquire);
  if (*out != nullptr) return CUDA_SUCCESS;
  const std::scoped_lock lock(p.mutex);
  *out = slot.load(std::memory_order_relaxed);
  if (*out != nullptr) return CUDA_SUCCESS;
  const CUresult result = d.cuDevicePrimaryCtxRetain(out, device);
  if (result == CUDA_SUCCESS) slot.store(*out, std::memory_order_release);
  return result;
}

CUresult select_device(const DriverTable& d, int device) noexcept {
  CUcontext primary = nullptr;
  CUresult result = primary_context(d, device, &primary);
  if (result == CUDA_SUCCESS) result = d.cuCtxSetCurrent(primary);
  if (result != CUDA_SUCCESS) return result;
  t_thread.device = device;
  t_thread.context = primary;
  t_thread.bound = true;
  return CUDA_SUCCESS;
}

CUresult bind_context(const DriverTable& d) noexcept {
  CUcontext current = nullptr;
  const CUresult result = d.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return result;
  if (current == nullptr) return select_device(d, t_thread.device);
  t_thread.bound = true;
  return CUDA_SUCCESS;
}

CUresult reset_device(const DriverTable& d) noexcept {
  Process& p = process();
  int device = 0;
  CUcontext current = nullptr;
  // A context in an error answers neither; resetting it is the way out of that.
  if (current_device(d, &device) != CUDA_SUCCESS) device = t_thread.device;
  d.cuCtxGetCurrent(&current);
  const std::scoped_lock lock(p.mutex);
  std::atomic<CUcontext>& slot = p.primary[static_cast<std::size_t>(device)];
  const CUcontext primary = slot.load(std::memory_order_relaxed);
  if (current != nullptr && current != primary) return CUDA_SUCCESS;
  const CUresult result = d.cuDevicePrimaryCtxReset(device);
  if (result != CUDA_SUCCESS || primary == nullptr) return result;
  slot.store(nullptr, std::memory_order_release);
  d.cuDevicePrimaryCtxRelease(device);
  d.cuCtxGetCurrent(&current);
  if (current == primary) d.cuCtxSetCurrent(nullptr);
  t_thread.context = nullptr;
  t_thread.bound = false;
  return CUDA_SUCCESS;
}

bool thread_is_bound() noexcept {
  return t_thread.bound;
}

bool bind_again(const DriverTable& d, CUresult result) noexcept {
  CUcontext current = nullptr;
  switch (result) {
    case CUDA_ERROR_INVALID_CONTEXT:  // the program popped it through the driver API
      d.cuCtxGetCurrent(&current);
      return current == nullptr && select_device(d, t_thread.device) == CUDA_SUCCESS;
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:  // another thread reset the device
      d.cuCtxGetCurrent(&current);
      return current == t_thread.context && select_device(d, t_thread.device) == CUDA_SUCCESS;
    default:
      return false;
  }
}

bool exiting() noexcept {
  return g_exiting.load();
}

cudaError_t finish(cudaError_t error) noexcept {
  if (error != cudaSuccess) t_thread.last_error = error;
  return error;
}

cudaError_t last_error(bool clear) noexcept {
  const cudaError_t error = t_thread.last_error;
  if (clear) t_thread.last_error = cudaSuccess;
  return error;
}

void note_unsupported(const char* name) noexcept {
  const DriverTable* d = installed_driver();
  if (d != nullptr && d->note != nullptr) d->note(name);
}

int refuse(const char* name) noexcept {
  note_unsupported(name);
  return finish(cudaErrorNotSupported);
}

}  // namespace simgpu::runtime
