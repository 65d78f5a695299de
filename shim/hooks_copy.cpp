// Copies and memsets go through the same gate as launches: what they name must be on the device when the
// device gets to them.

#include <string_view>
#include <type_traits>

#include "shim/entry.h"
#include "shim/gate.h"
#include "shim/record.h"

namespace tidepool::shim {
namespace {

// What a call touches, from its arguments. Device addresses are CUdeviceptr, or plain pointers in calls that
// take any address of the unified space; sizes and counts are other types.
void collect(TouchSet& set, CUdeviceptr address) noexcept {
  set.add(address);
}
void collect(TouchSet& set, const void* address) noexcept {
  set.add(reinterpret_cast<std::uintptr_t>(address));
}
template <class Shape>
requires requires(const Shape& s) {
  s.srcDevice;
  s.dstDevice;
  s.srcHost;
  s.dstHost;
}
void collect(TouchSet& set, const Shape* shape) noexcept {
  if (shape == nullptr) return;
  // With a unified memory type the device fields hold any address; with host or array they hold nothing.
  set.add(shape->srcDevice);
  set.add(shape->dstDevice);
}
template <class Number>
requires(std::is_integral_v<Number> && !std::is_same_v<Number, CUdeviceptr>) void collect(TouchSet&,
                                                                                          Number) noexcept {}
void collect(TouchSet&, CUarray) noexcept {}
void collect(TouchSet&, CUcontext) noexcept {}
void collect(TouchSet&, CUstream) noexcept {}

template <class... A>
CUstream last_stream(A... args) noexcept {
  CUstream stream = nullptr;
  const auto take = [&](auto arg) {
    if constexpr (std::is_same_v<decltype(arg), CUstream>) stream = arg;
  };
  (take(args), ...);
  return stream;
}

template <class... A>
constexpr bool kHasStream = (std::is_same_v<A, CUstream> || ...);

/// What the recorder is told of a call, by the function's name and its arguments.
constexpr plan::CopyKind kind_of(std::string_view name) noexcept {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("Memset")) return plan::CopyKind::kMemset;
  if (has("HtoD")) return plan::CopyKind::kToDevice;
  if (has("DtoH")) return plan::CopyKind::kToHost;
  return has("DtoD") || has("DtoA") || has("AtoD") ? plan::CopyKind::kOnDevice : plan::CopyKind::kOther;
}

/// The last numbers of a call are its extents: bytes, or for memsets elements; of 2D memsets width and
/// height.
template <class... A>
std::size_t bytes_of(std::string_view name, A... args) noexcept {
  std::size_t sizes[2] = {1, 0};
  const auto take = [&](auto arg) {
    if constexpr (std::is_same_v<decltype(arg), std::size_t>) {
      sizes[0] = sizes[1];
      sizes[1] = arg;
    } else if constexpr (std::is_pointer_v<decltype(arg)>) {
      if constexpr (requires { arg->WidthInBytes, arg->Height, arg->Depth; }) {
        sizes[1] = arg->WidthInBytes * arg->Height * arg->Depth;
      } else if constexpr (requires { arg->WidthInBytes, arg->Height; }) {
        sizes[1] = arg->WidthInBytes * arg->Height;
      }
    }
  };
  (take(args), ...);
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  const std::size_t element = has("D16") || has("D2D16") ? 2 : has("D32") || has("D2D32") ? 4 : 1;
  return sizes[1] * element * (has("MemsetD2D") ? sizes[0] : 1);
}

constexpr auto kGated = [](const auto& call, auto... args) noexcept {
  if (last_stream(args...) == CU_STREAM_PER_THREAD) [[unlikely]]
    note_blocking_stream();
  runtime::Runtime* runtime = managed();
  if (runtime == nullptr) return call(args...);
  TouchSet set(runtime->arena());
  (collect(set, args), ...);
  constexpr Waits kWaits = kHasStream<decltype(args)...> ? Waits::kNo : Waits::kYes;
  const CUresult result = pass(*runtime, set, last_stream(args...), call.kPerThread, kWaits, call.kName,
                               [&] { return call(args...); });
  if (recording() && result == CUDA_SUCCESS) [[unlikely]] {
    record_copy(kind_of(call.kName), bytes_of(call.kName, args...),
                stream_of(last_stream(args...), call.kPerThread), set);
  }
  return result;
};

// Several copies are one record, without a size.
template <class C>
void record_batch(const C& call, CUresult result, const TouchSet& set, CUstream stream) noexcept {
  if (recording() && result == CUDA_SUCCESS) [[unlikely]]
    record_copy(plan::CopyKind::kOther, 0, stream_of(stream, call.kPerThread), set);
}

// `rest`: attributes, where the version has it an index of what failed, and the stream.
constexpr auto kBatch = [](const auto& call, CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes,
                           std::size_t count, auto... rest) noexcept {
  runtime::Runtime* runtime = managed();
  const auto forward = [&] { return call(to, from, sizes, count, rest...); };
  if (runtime == nullptr || to == nullptr || from == nullptr) return forward();
  TouchSet set(runtime->arena());
  for (std::size_t i = 0; i < count; ++i) {
    set.add(to[i]);
    set.add(from[i]);
  }
  const CUresult result =
      pass(*runtime, set, last_stream(rest...), call.kPerThread, Waits::kNo, call.kName, forward);
  record_batch(call, result, set, last_stream(rest...));
  return result;
};

constexpr auto kBatch3D = [](const auto& call, std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                             auto... rest) noexcept {
  runtime::Runtime* runtime = managed();
  const auto forward = [&] { return call(count, operations, rest...); };
  if (runtime == nullptr || operations == nullptr) return forward();
  TouchSet set(runtime->arena());
  for (std::size_t i = 0; i < count; ++i) {
    for (const CUmemcpy3DOperand* operand : {&operations[i].src, &operations[i].dst}) {
      if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER) set.add(operand->op.ptr.ptr);
    }
  }
  const CUresult result =
      pass(*runtime, set, last_stream(rest...), call.kPerThread, Waits::kNo, call.kName, forward);
  record_batch(call, result, set, last_stream(rest...));
  return result;
};

constexpr auto kDecompress = [](const auto& call, CUmemDecompressParams* operations, std::size_t count,
                                unsigned flags, std::size_t* failed, CUstream stream) noexcept {
  runtime::Runtime* runtime = managed();
  const auto forward = [&] { return call(operations, count, flags, failed, stream); };
  if (runtime == nullptr || operations == nullptr) return forward();
  TouchSet set(runtime->arena());
  for (std::size_t i = 0; i < count; ++i) {
    collect(set, operations[i].src);
    collect(set, operations[i].dst);
    collect(set, operations[i].dstActBytes);
  }
  const CUresult result = pass(*runtime, set, stream, call.kPerThread, Waits::kNo, call.kName, forward);
  record_batch(call, result, set, stream);
  return result;
};

}  // namespace

TP_HANDLE_PTDS(cuMemcpy, kGated)
TP_HANDLE_PTDS(cuMemcpyPeer, kGated)
TP_HANDLE_PTDS(cuMemcpyHtoD_v2, kGated)
TP_HANDLE_PTDS(cuMemcpyDtoH_v2, kGated)
TP_HANDLE_PTDS(cuMemcpyDtoD_v2, kGated)
TP_HANDLE_PTDS(cuMemcpyDtoA_v2, kGated)
TP_HANDLE_PTDS(cuMemcpyAtoD_v2, kGated)
TP_HANDLE_PTDS(cuMemcpy2D_v2, kGated)
TP_HANDLE_PTDS(cuMemcpy2DUnaligned_v2, kGated)
TP_HANDLE_PTDS(cuMemcpy3D_v2, kGated)
TP_HANDLE_PTDS(cuMemcpy3DPeer, kGated)
TP_HANDLE_PTSZ(cuMemcpyAsync, kGated)
TP_HANDLE_PTSZ(cuMemcpyPeerAsync, kGated)
TP_HANDLE_PTSZ(cuMemcpyHtoDAsync_v2, kGated)
TP_HANDLE_PTSZ(cuMemcpyDtoHAsync_v2, kGated)
TP_HANDLE_PTSZ(cuMemcpyDtoDAsync_v2, kGated)
TP_HANDLE_PTSZ(cuMemcpy2DAsync_v2, kGated)
TP_HANDLE_PTSZ(cuMemcpy3DAsync_v2, kGated)
TP_HANDLE_PTSZ(cuMemcpy3DPeerAsync, kGated)
TP_HANDLE_PTSZ(cuMemcpyBatchAsync, kBatch)
TP_HANDLE_PTSZ(cuMemcpyBatchAsync_v2, kBatch)
TP_HANDLE_PTSZ(cuMemcpy3DBatchAsync, kBatch3D)
TP_HANDLE_PTSZ(cuMemcpy3DBatchAsync_v2, kBatch3D)
TP_HANDLE_PTSZ(cuMemBatchDecompressAsync, kDecompress)

TP_HANDLE_PTDS(cuMemsetD8_v2, kGated)
TP_HANDLE_PTDS(cuMemsetD16_v2, kGated)
TP_HANDLE_PTDS(cuMemsetD32_v2, kGated)
TP_HANDLE_PTDS(cuMemsetD2D8_v2, kGated)
TP_HANDLE_PTDS(cuMemsetD2D16_v2, kGated)
TP_HANDLE_PTDS(cuMemsetD2D32_v2, kGated)
TP_HANDLE_PTSZ(cuMemsetD8Async, kGated)
TP_HANDLE_PTSZ(cuMemsetD16Async, kGated)
TP_HANDLE_PTSZ(cuMemsetD32Async, kGated)
TP_HANDLE_PTSZ(cuMemsetD2D8Async, kGated)
TP_HANDLE_PTSZ(cuMemsetD2D16Async, kGated)
TP_HANDLE_PTSZ(cuMemsetD2D32Async, kGated)

}  // namespace tidepool::shim
