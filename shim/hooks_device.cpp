// Devices: the ends of their contexts, and who reaches whose memory.

#include "shim/arg_scan.h"
#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/graph_memory.h"
#include "shim/held_blocks.h"
#include "shim/kernel_timer.h"
#include "shim/managed.h"
#include "shim/observe.h"
#include "shim/ownership.h"
#include "shim/pools.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

// Handles of the context may come back for others.
void forget_handles() noexcept {
  forget_streams();
  forget_layouts();
  runtime::Recorder::instance().forget_kernels();
  forget_timings();
}

// The device's primary context, if there was one, has ended.
void forget_context(CUdevice device, CUcontext context) noexcept {
  forget_observed(device);
  if (context == nullptr) return;
  forget_outside_of(context);
  forget_captures_of(context);
  forget_graph_memory(device);
  if (managed_on(device) == nullptr) forget_held(device);  // or it is managed in another context
}

constexpr auto kReset = [](const auto& call, CUdevice device) noexcept {
  forget_handles();
  const CUcontext context = primary_context(device);
  const CUresult result = reset_primary(device, call.real);
  if (result == CUDA_SUCCESS) forget_context(device, context);
  return result;
};

// Our own reference must not keep a context alive that the program has given up: its memory would stay.
constexpr auto kRelease = [](const auto& call, CUdevice device) noexcept {
  forget_streams();
  forget_layouts();
  const CUcontext context = primary_context(device);
  const CUresult result = release_primary(device, call.real);
  if (result == CUDA_SUCCESS && context != nullptr && primary_context(device) == nullptr) {
    forget_handles();
    forget_context(device, context);
  }
  return result;
};

// Takes the context's streams and functions with it. Where it is not managed nothing was recorded in those
// streams (shim/gate.h).
constexpr auto kContextDestroy = [](const auto& call, CUcontext context) noexcept {
  forget_layouts();
  const ManagedDevice* const managed = context != nullptr ? managed_in(context) : nullptr;
  bool was_managed = false;
  const CUresult result =
      end_context(context, [&] { return destroy_context(context, call.real, &was_managed); });
  if (result != CUDA_SUCCESS) return result;
  if (was_managed) {
    forget_handles();
    forget_held(managed->ordinal);
  }
  forget_outside_of(context);
  forget_captures_of(context);
  return result;
};

constexpr auto kEnablePeer = [](const auto& call, CUcontext peer, unsigned flags) noexcept {
  const CUresult result = call(peer, flags);
  if (result != CUDA_SUCCESS) return result;
  // Work of the current context is let in to the peer's memory, the direction is one way.
  const CUresult let_in = let_peer_in(device_of(peer), current_device());
  if (let_in != CUDA_SUCCESS) {
    const auto undo = active_driver().cuCtxDisablePeerAccess;
    if (undo != nullptr) (void)undo(peer);
  }
  return let_in;
};

constexpr auto kPoolAccess = [](const auto& call, CUmemoryPool pool, const CUmemAccessDesc* access,
                                std::size_t count) noexcept {
  CUresult result = call(pool, access, count);
  for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    const bool is_devices = access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (is_devices && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      result = let_peer_in(device_of_pool(pool), access[i].location.id);
  }
  return result;
};

}  // namespace

TP_HANDLE(cuDevicePrimaryCtxReset, kReset)
TP_HANDLE(cuDevicePrimaryCtxReset_v2, kReset)
TP_HANDLE(cuDevicePrimaryCtxRelease, kRelease)
TP_HANDLE(cuDevicePrimaryCtxRelease_v2, kRelease)
TP_HANDLE(cuCtxDestroy, kContextDestroy)
TP_HANDLE(cuCtxDestroy_v2, kContextDestroy)
TP_HANDLE(cuCtxDetach, kContextDestroy)
TP_HANDLE(cuCtxEnablePeerAccess, kEnablePeer)
TP_HANDLE(cuMemPoolSetAccess, kPoolAccess)

}  // namespace tidepool::shim
