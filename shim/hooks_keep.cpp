// Calls after which something refers to memory that we cannot follow: what they name stays on the device. And
// the end of streams.

#include <algorithm>
#include <atomic>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allocator/support/message.h"
#include "shim/arg_scan.h"
#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/gate.h"
#include "shim/graph_scan.h"
#include "shim/held_blocks.h"
#include "shim/managed.h"
#include "shim/outside_memory.h"
#include "shim/payload.h"
#include "shim/runtime_door.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

CUresult keep(std::uint64_t address, const char* what) noexcept {
  runtime::Runtime* runtime = owner(address);
  if (runtime == nullptr) return CUDA_SUCCESS;
  return static_cast<CUresult>(runtime->keep(runtime::DevicePtr(address), what).code());
}

/// For the time of a call, and as long as the work lasts that is noted.
CUresult hold(HeldBlocks& held, std::uint64_t address, const char* what) noexcept {
  const auto scan = [address](TouchSet& set) { return set.add(address), true; };
  return held.hold(what, scan);
}

/// Work in the stream uses what is held, and nothing does after it. Work that went into a graph is found when
/// that is instantiated.
void note_stream(HeldBlocks& held, CUstream stream, bool per_thread, bool is_captured) noexcept {
  WorkUses uses;
  note_work(stream, per_thread, uses);
  if (!is_captured) held.note(uses);
}

// The address is the argument at `Index`. Stream memory operations use it until they have passed; for the
// rest it stays until it is freed, unless the driver has refused the call.
template <std::size_t Index>
constexpr auto kKeepArgument = [](const auto& call, auto... args) noexcept {
  const auto address = std::get<Index>(std::tuple(args...));
  std::uint64_t value = 0;
  if constexpr (std::is_pointer_v<decltype(address)>) {
    value = reinterpret_cast<std::uintptr_t>(address);
  } else {
    value = address;
  }
  HeldBlocks held;
  const CUresult there = hold(held, value, call.kName);
  // The memory is in use in this stream's context from now on; a free has to wait for it.
  if constexpr (std::is_same_v<std::tuple_element_t<0, std::tuple<decltype(args)...>>, CUstream>) {
    const CUstream stream = std::get<0>(std::tuple(args...));
    if (there != CUDA_SUCCESS) return spoil_capture(stream, call.kPerThread, there);
    const bool is_captured = is_capturing(stream, call.kPerThread);
    note_unseen_use(stream);
    const CUresult result = with_room([&] { return call(args...); });
    note_stream(held, stream, call.kPerThread, is_captured);
    return result;
  } else {
    const CUresult result = there == CUDA_SUCCESS ? with_room([&] { return call(args...); }) : there;
    return result == CUDA_SUCCESS ? keep(value, call.kName) : result;
  }
};

// The word that is stored may be an address itself.
constexpr auto kStoreWord = [](const auto& call, CUstream stream, CUdeviceptr at, cuuint64_t value,
                               unsigned flags) noexcept {
  const Fate fate = is_capturing(stream, call.kPerThread) ? Fate::kCaptured : Fate::kDone;
  BroughtNames names;
  const CUresult kept = names.keep(at, value, call.kName, fate);
  if (kept != CUDA_SUCCESS) return spoil_capture(stream, call.kPerThread, kept);
  const CUresult result = kKeepArgument<1>(call, stream, at, value, flags);
  if (result == CUDA_SUCCESS && fate == Fate::kDone) names.arrived();
  return result;
};

constexpr auto kWaitValue = [](const auto& call, auto... args) noexcept {
  note_awaited_value();
  return kKeepArgument<1>(call, args...);
};

constexpr auto kBatchMemOp = [](const auto& call, CUstream stream, unsigned count,
                                CUstreamBatchMemOpParams* operations, unsigned flags) noexcept {
  const Fate fate = is_capturing(stream, call.kPerThread) ? Fate::kCaptured : Fate::kDone;
  BroughtNames names;
  HeldBlocks held;
  note_waits(operations, count);
  const auto scan = [&](TouchSet& set) {
    for (unsigned i = 0; operations != nullptr && i < count; ++i) set.add(address_of(operations[i]));
    return true;
  };
  CUresult there = held.hold(call.kName, scan);
  for (unsigned i = 0; operations != nullptr && i < count && there == CUDA_SUCCESS; ++i)
    there = names.keep(address_of(operations[i]), value_of(operations[i]), call.kName, fate);
  if (there != CUDA_SUCCESS) return spoil_capture(stream, call.kPerThread, there);
  note_unseen_use(stream);
  const CUresult result = with_room([&] { return call(stream, count, operations, flags); });
  if (result == CUDA_SUCCESS && fate == Fate::kDone) names.arrived();
  note_stream(held, stream, call.kPerThread, fate == Fate::kCaptured);
  return result;
};

// Kernels are given the texture, not the memory, so who uses it is not seen.
constexpr auto kTexture = [](const auto& call, CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                             const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) noexcept {
  const auto scan = [resource](TouchSet& set) {
    if (resource == nullptr) return true;
    if (resource->resType == CU_RESOURCE_TYPE_LINEAR) set.add(resource->res.linear.devPtr);
    if (resource->resType == CU_RESOURCE_TYPE_PITCH2D) set.add(resource->res.pitch2D.devPtr);
    return true;
  };
  HeldBlocks held;
  if (const CUresult kept = held.hold(call.kName, scan); kept != CUDA_SUCCESS) return kept;
  held.name_addresses();
  const CUresult result = with_room([&] { return call(out, resource, texture, view); });
  held.note_unseen();
  if (result == CUDA_SUCCESS && out != nullptr) add_held(*out, std::move(held));
  return result;
};

constexpr auto kTextureDestroy = [](const auto& call, CUtexObject texture) noexcept {
  HeldBlocks held = take_held(texture);
  const CUresult result = call(texture);
  if (result != CUDA_SUCCESS) add_held(texture, std::move(held));
  return result;
};

// A handle of this kind stands for memory of cuMemAlloc's own making; memory that is mapped has none, and the
// driver would say so by the same error. It goes on moving.
constexpr auto kIpcHandle = [](const auto& call, CUipcMemHandle* out, CUdeviceptr at) noexcept {
  if (owner(at) == nullptr) return call(out, at);
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) report<Msg::TP1018>();
  return CUDA_ERROR_INVALID_VALUE;
};

// Flags come second in both.
constexpr auto kStreamCreate = [](const auto& call, CUstream* out, unsigned flags, auto... rest) noexcept {
  if ((flags & CU_STREAM_NON_BLOCKING) == 0) note_blocking_stream();
  return with_room([&] { return call(out, flags, rest...); });
};

constexpr auto kStreamDestroy = [](const auto& call, CUstream stream) noexcept {
  forget_streams();
  // Whose stream it is need not be asked: no other lives under its handle.
  for_each_managed([&](const ManagedDevice& device) {
    for_each_managed([&](const ManagedDevice& home) {
      if (stream != nullptr) device.runtime->stream_destroyed(stream_for(device, home, stream, false));
    });
  });
  const CUresult result = call(stream);
  if (result == CUDA_SUCCESS) capture_ended(stream, false);
  return result;
};

}  // namespace

bool keep_named(RuntimeHook hook, std::span<const void* const> pointers) noexcept {
  if (g_mode.load(std::memory_order_acquire) != Mode::kActive || t_depth != 0) return true;
  const DepthGuard guard;
  const NoCancel no_cancel;
  // The library's kernels may reach the buffers from any device.
  if (only_managed() == nullptr) {
    for_each_managed([](const ManagedDevice& used) {
      for_each_managed([&](const ManagedDevice& user) {
        if (&user != &used) used.runtime->note_peer(user.slot);
      });
    });
  }
  return std::all_of(pointers.begin(), pointers.end(), [hook](const void* pointer) {
    const CUresult kept = keep(reinterpret_cast<std::uintptr_t>(pointer), runtime_hook_name(hook));
    // Not every rank's buffer is used: one that names nothing is for the library to look at.
    return kept == CUDA_SUCCESS || kept == CUDA_ERROR_INVALID_VALUE;
  });
}

TP_HANDLE_PTSZ(cuStreamWaitValue32_v2, kWaitValue)
TP_HANDLE_PTSZ(cuStreamWaitValue64_v2, kWaitValue)
TP_HANDLE_PTSZ(cuStreamWriteValue32_v2, kKeepArgument<1>)
TP_HANDLE_PTSZ(cuStreamWriteValue64_v2, kStoreWord)
TP_HANDLE_PTSZ(cuStreamBatchMemOp_v2, kBatchMemOp)
TP_HANDLE_PTSZ(cuStreamWaitValue32, kWaitValue)
TP_HANDLE_PTSZ(cuStreamWaitValue64, kWaitValue)
TP_HANDLE_PTSZ(cuStreamWriteValue32, kKeepArgument<1>)
TP_HANDLE_PTSZ(cuStreamWriteValue64, kStoreWord)
TP_HANDLE_PTSZ(cuStreamBatchMemOp, kBatchMemOp)
TP_HANDLE(cuPointerSetAttribute, kKeepArgument<2>)
TP_HANDLE(cuIpcGetMemHandle, kIpcHandle)
TP_HANDLE(cuMemGetHandleForAddressRange, kKeepArgument<1>)
TP_HANDLE(cuTensorMapEncodeTiled, kKeepArgument<3>)
TP_HANDLE(cuTensorMapEncodeIm2col, kKeepArgument<3>)
TP_HANDLE(cuTensorMapEncodeIm2colWide, kKeepArgument<3>)
TP_HANDLE(cuTensorMapReplaceAddress, kKeepArgument<1>)
TP_HANDLE(cuTexObjectCreate, kTexture)
TP_HANDLE(cuTexObjectDestroy, kTextureDestroy)
TP_HANDLE(cuTexRefSetAddress_v2, kKeepArgument<2>)
TP_HANDLE(cuTexRefSetAddress2D_v2, kKeepArgument<2>)
TP_HANDLE(cuTexRefSetAddress2D_v3, kKeepArgument<2>)
TP_HANDLE(cuMulticastBindAddr, kKeepArgument<2>)

TP_HANDLE(cuStreamCreate, kStreamCreate)
TP_HANDLE(cuStreamCreateWithPriority, kStreamCreate)
TP_HANDLE(cuStreamDestroy, kStreamDestroy)
TP_HANDLE(cuStreamDestroy_v2, kStreamDestroy)

}  // namespace tidepool::shim
