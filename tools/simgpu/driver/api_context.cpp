#include <iterator>

#include "tools/simgpu/driver/api.h"

namespace simgpu {
namespace {

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;

/// The context that a handle names, or null.
Context* find_context(Driver& d, CUcontext handle) {
  const auto it = d.contexts.find(handle);
  return it == d.contexts.end() ? nullptr : it->second;
}

CUresult create_context(Driver& d, CUcontext* out, unsigned flags, CUdevice dev) {
  if (out == nullptr || (flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (gpu->lost != CUDA_SUCCESS) return gpu->lost;
  auto* context = new Context;
  context->gpu = gpu;
  context->flags = flags;
  if (!context_stack().push(context)) return delete context, CUDA_ERROR_OUT_OF_MEMORY;
  d.contexts.emplace(handle_of(context), context);
  d.start_context(context);
  *out = handle_of(context);
  return CUDA_SUCCESS;
}

CUresult synchronize(Driver& d, Context& context) {
  const CUresult allowed = may_wait(context);
  if (allowed != CUDA_SUCCESS) return allowed;
  d.scheduler.drain(&context);
  d.synchronized();
  return context.sticky;
}

}  // namespace

SIMGPU_API(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice dev), out, dev) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (gpu->lost != CUDA_SUCCESS) return gpu->lost;
  if (!gpu->primary.alive) d.start_context(&gpu->primary);
  ++gpu->primary.retained;
  *out = handle_of(&gpu->primary);
  return CUDA_SUCCESS;
}

/// Release and reset work while the context is in an error: it can be ended, but no other begins.
static CUresult leave_primary(Entry entry, CUdevice dev, bool reset) {
  return enter_always(entry, 0, [&](Driver& d) {
    Gpu* gpu = d.gpu_at(dev);
    if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    Context& primary = gpu->primary;
    if (!primary.alive) return reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (reset) {
      d.end_context(&primary);
      if (primary.retained > 0) d.start_context(&primary);
      return CUDA_SUCCESS;
    }
    if (primary.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.retained == 0) d.end_context(&primary);
    return CUDA_SUCCESS;
  });
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return leave_primary(Entry::cuDevicePrimaryCtxRelease_v2, dev, false);
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return leave_primary(Entry::cuDevicePrimaryCtxReset_v2, dev, true);
}

SIMGPU_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned flags), dev, flags) {
  Gpu* gpu = d.gpu_at(dev);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  gpu->primary.flags = flags;
  return CUDA_SUCCESS;
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags,
                                                                     int* active) {
  return enter_whatever_is_current(Entry::cuDevicePrimaryCtxGetState, [&](Driver& d) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Gpu* gpu = d.gpu_at(dev);
    if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *flags = gpu->primary.flags;
    *active = gpu->primary.alive ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

SIMGPU_API(cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice dev), out, flags, dev) {
  return create_context(d, out, flags, dev);
}

SIMGPU_API(cuCtxCreate_v3,
           (CUcontext * out, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice dev), out,
           affinity, count, flags, dev) {
  if (count != 0 || affinity != nullptr) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create_context(d, out, flags, dev);
}

SIMGPU_API(cuCtxCreate_v4, (CUcontext * out, CUctxCreateParams* params, unsigned flags, CUdevice dev), out,
           params, flags, dev) {
  if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create_context(d, out, flags, dev);
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle) {
  return enter_always(Entry::cuCtxDestroy_v2, 0, [&](Driver& d) {
    Context* context = find_context(d, handle);
    if (context == nullptr || context->primary || !context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    d.end_context(context);
    if (current_context() == context) context_stack().pop();
    return CUDA_SUCCESS;
  });
}

// What is current is the thread's affair: it is told and changed whatever has become of the context.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
  return enter_whatever_is_current(Entry::cuCtxGetCurrent, [&](Driver&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = current_context() == nullptr ? nullptr : handle_of(current_context());
    return CUDA_SUCCESS;
  });
}

/// Binds a context in place of the current one; null unbinds.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  return enter_whatever_is_current(Entry::cuCtxSetCurrent, [&](Driver& d) {
    ContextStack& stack = context_stack();
    Context* context = find_context(d, handle);
    if (handle != nullptr && (context == nullptr || !context->alive)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!stack.empty()) stack.pop();
    return context == nullptr || stack.push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle) {
  return enter_whatever_is_current(Entry::cuCtxPushCurrent_v2, [&](Driver& d) {
    Context* context = find_context(d, handle);
    if (context == nullptr || !context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    return context_stack().push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* out) {
  return enter_whatever_is_current(Entry::cuCtxPopCurrent_v2, [&](Driver&) {
    if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = handle_of(context_stack().back());
    context_stack().pop();
    return CUDA_SUCCESS;
  });
}

SIMGPU_API_CONTEXT(cuCtxGetDevice, (CUdevice * dev), dev) {
  if (dev == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *dev = context.gpu->ordinal;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuCtxGetDevice_v2, (CUdevice * dev, CUcontext handle), dev, handle) {
  if (dev == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = handle == nullptr ? current_context() : find_context(d, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *dev = context->gpu->ordinal;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuCtxGetFlags, (unsigned* flags), flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context.flags;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuCtxGetId, (CUcontext handle, unsigned long long* id), handle, id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = handle == nullptr ? current_context() : find_context(d, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuCtxGetApiVersion, (CUcontext handle, unsigned* version), handle, version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr && find_context(d, handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  constexpr unsigned kContextApi = 3020;
  *version = kContextApi;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuCtxSynchronize, ()) {
  return synchronize(d, context);
}

SIMGPU_API(cuCtxSynchronize_v2, (CUcontext handle), handle) {
  Context* context = handle == nullptr ? current_context() : find_context(d, handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return synchronize(d, *context);
}

SIMGPU_API_CONTEXT(cuCtxGetStreamPriorityRange, (int* least, int* greatest), least, greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

/// Lets work of the current context use plain memory of the peer's device. The direction is one way.
SIMGPU_API_CONTEXT(cuCtxEnablePeerAccess, (CUcontext handle, unsigned flags), handle, flags) {
  const Context* peer = find_context(d, handle);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (peer == nullptr || !peer->alive || peer == &context) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->gpu == context.gpu) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(peer->gpu->ordinal);
  if ((context.peers & bit) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  context.peers |= bit;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuCtxDisablePeerAccess, (CUcontext handle), handle) {
  const Context* peer = find_context(d, handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(peer->gpu->ordinal);
  if ((context.peers & bit) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  context.peers &= ~bit;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
