#include "tools/simgpu/runtime/runtime.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace simgpu::runtime {
namespace {

struct Process {
  DriverTable legacy, per_thread;
  decltype(&::cuGetProcAddress_v2) lookup = nullptr;
  cudaError_t state = cudaErrorInsufficientDriver;
  std::atomic<CUcontext> primary{nullptr};
  std::mutex mutex;
};

std::atomic<bool> g_exiting{false};
thread_local cudaError_t t_last_error = cudaSuccess;
thread_local bool t_bound = false;

/// Loads the driver once. Leaked, so that calls from other libraries' destructors still find it.
Process& process() {
  static Process* made = [] {
    auto* p = new Process;
    if (load_driver(&p->legacy, &p->per_thread, &p->lookup)) p->state = as_runtime(p->legacy.cuInit(0));
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

decltype(&::cuGetProcAddress_v2) driver_lookup() noexcept {
  return process().lookup;
}

CUresult bind_primary(const DriverTable& d) noexcept {
  CUcontext current = nullptr;
  CUresult result = d.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return result;
  if (current == nullptr) {
    Process& p = process();
    const std::scoped_lock lock(p.mutex);
    CUcontext primary = p.primary.load(std::memory_order_relaxed);
    if (primary == nullptr) {
      result = d.cuDevicePrimaryCtxRetain(&primary, 0);
      if (result != CUDA_SUCCESS) return result;
      p.primary.store(primary, std::memory_order_relaxed);
    }
    result = d.cuCtxSetCurrent(primary);
    if (result != CUDA_SUCCESS) return result;
  }
  t_bound = true;
  return CUDA_SUCCESS;
}

bool thread_is_bound() noexcept {
  return t_bound;
}
void forget_binding() noexcept {
  t_bound = false;
}
bool exiting() noexcept {
  return g_exiting.load();
}

cudaError_t finish(cudaError_t error) noexcept {
  if (error != cudaSuccess) t_last_error = error;
  return error;
}

cudaError_t last_error(bool clear) noexcept {
  const cudaError_t error = t_last_error;
  if (clear) t_last_error = cudaSuccess;
  return error;
}

}  // namespace simgpu::runtime
