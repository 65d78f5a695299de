// Copies and memsets go through the same gate as launches: what they name must be on the device when the
// device gets to them.

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "shim/batch_parts.h"
#include "shim/copy_extent.h"
#include "shim/entry.h"
#include "shim/gate_several.h"
#include "shim/observe.h"
#include "shim/payload.h"
#include "shim/record.h"
#include "shim/table_writes.h"

namespace tidepool::shim {
namespace {

// What a call touches, from its arguments. Device addresses are CUdeviceptr, or plain pointers in calls that
// take any address of the unified space; sizes and counts are other types.
template <class Set>
void collect(Set& set, CUdeviceptr address) noexcept {
  set.add(address);
}
template <class Set>
void collect(Set& set, const void* address) noexcept {
  set.add(reinterpret_cast<std::uintptr_t>(address));
}
template <class Set, class Shape>
requires requires(const Shape& s) {
  s.srcDevice;
  s.dstDevice;
  s.srcHost;
  s.dstHost;
}
void collect(Set& set, const Shape* shape) noexcept {
  if (shape != nullptr) add_reached(set, *shape);
}
template <class Set, class Number>
requires(std::is_integral_v<Number> && !std::is_same_v<Number, CUdeviceptr>) void collect(Set&,
                                                                                          Number) noexcept {}
template <class Set>
void collect(Set&, CUarray) noexcept {}
template <class Set>
void collect(Set&, CUcontext) noexcept {}
template <class Set>
void collect(Set&, CUstream) noexcept {}

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

// What a call brings from the host, from its arguments.
template <class... Rest>
Payload payload_of_call(std::string_view, CUdeviceptr to, const void* from, std::size_t size,
                        Rest...) noexcept {
  return payload_of(to, reinterpret_cast<std::uintptr_t>(from), size);
}
// Of two addresses either may be the host's, but for the calls whose name says otherwise.
template <class... Rest>
Payload payload_of_call(std::string_view name, CUdeviceptr to, CUdeviceptr from, std::size_t size,
                        Rest...) noexcept {
  return name.find("DtoD") == name.npos ? payload_of(to, from, size) : Payload();
}
template <class Shape, class... Rest>
requires requires(const Shape& s) {
  s.srcHost;
}
Payload payload_of_call(std::string_view, const Shape* shape, Rest...) noexcept {
  return shape != nullptr ? payload_of(*shape) : Payload();
}
// All others bring nothing.
struct Nothing {};
template <class... A>
Nothing payload_of_call(std::string_view, A...) noexcept {
  return {};
}

template <class... A>
[[gnu::always_inline]] inline CUresult keep_named_by_call(BroughtNames& names, const char* name, Fate fate,
                                                          A... args) noexcept {
  if constexpr (!std::is_same_v<decltype(payload_of_call(name, args...)), Nothing>)
    return names.keep(payload_of_call(name, args...), name, fate);
  return CUDA_SUCCESS;
}

Fate fate_of(CUstream stream, bool per_thread) noexcept {
  return is_capturing(stream, per_thread) ? Fate::kCaptured : Fate::kDone;
}

template <class... A>
[[gnu::noinline, gnu::cold]] void change_tables(BroughtNames& names, A... args) noexcept {
  note_written(args...);
  names.arrived();
}

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

// Copies that name contexts reach what lies in them; kernels and memsets what the program has enabled. All
// other copies get to any memory of cuMemAlloc.
// While the library is compiled, or each copy would search its name.
consteval Reach reach_of(std::string_view name) noexcept {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  return has("Peer") || has("Memset") ? Reach::kProgram : Reach::kCopies;
}

template <class C, class Collect, class Forward, class Record>
[[gnu::noinline]] CUresult gate_several(const C& call, CUstream stream, Waits waits, Collect&& collect_all,
                                        Forward&& forward, Record&& record) noexcept {
  const auto collect_here = [&](TouchSet& set) {
    collect_all(set);
    return true;
  };
  const TouchedDevices touched(collect_here);
  const CUresult result =
      pass(touched, stream, call.kPerThread, waits, call.kName, reach_of(C::kName), forward);
  if (recording() && result == CUDA_SUCCESS) [[unlikely]] {
    const std::vector<std::uint32_t> blocks = touched.recorded();
    record(Touched(blocks, touched.is_known()));
  }
  return result;
}

// Nothing is managed.
template <class Collect, class Forward, class Record>
[[gnu::noinline]] CUresult go_unmanaged(Collect&& collect_all, Forward&& forward, Record&& record) noexcept {
  if (!observes() || !recording()) return forward();
  ObservedSet set(runtime::ObservedMemory::instance());
  collect_all(set);
  const CUresult result = forward();
  if (result == CUDA_SUCCESS) record(Touched(set));
  return result;
}

/// Runs `forward()`, the call, once what `collect_all(set)` finds is on the device; `record(set)` tells the
/// recorder.
template <class C, class Collect, class Forward, class Record>
CUresult gate(const C& call, CUstream stream, Waits waits, Collect&& collect_all, Forward&& forward,
              Record&& record) noexcept {
  runtime::Runtime* runtime = only_managed();
  if (runtime == nullptr) [[unlikely]] {
    return any_managed() ? gate_several(call, stream, waits, collect_all, forward, record)
                         : go_unmanaged(collect_all, forward, record);
  }
  TouchSet set(runtime->arena());
  collect_all(set);
  const CUresult result =
      pass(*runtime, set, stream, call.kPerThread, waits, call.kName, forward, reach_of(C::kName));
  if (recording() && result == CUDA_SUCCESS) [[unlikely]]
    record(Touched(set));
  return result;
}

constexpr auto kGated = [](const auto& call, auto... args) noexcept {
  const Fate fate = fate_of(last_stream(args...), call.kPerThread);
  BroughtNames names;
  const CUresult kept = keep_named_by_call(names, call.kName, fate, args...);
  if (kept != CUDA_SUCCESS) return spoil_capture(last_stream(args...), call.kPerThread, kept);
  constexpr Waits kWaits = kHasStream<decltype(args)...> ? Waits::kNo : Waits::kYes;
  const CUresult result = gate(
      call, last_stream(args...), kWaits, [&](auto& set) { (collect(set, args), ...); },
      [&] { return call(args...); },
      [&](Touched set) {
        record_copy(kind_of(call.kName), bytes_of(call.kName, args...),
                    recorded_stream(last_stream(args...), call.kPerThread), set);
      });
  if (result == CUDA_SUCCESS && fate == Fate::kDone && tables_exist()) [[unlikely]]
    change_tables(names, args...);
  return result;
};

// From one managed device to another: the call that names both contexts needs no access of one device to the
// other's memory, and memory that is mapped, as ours is, has no other way where devices cannot reach each
// other.
template <Hook Peer>
constexpr auto kLinear = [](const auto& call, CUdeviceptr to, CUdeviceptr from, std::size_t size,
                            auto... stream) noexcept {
  const bool are_several = only_managed() == nullptr && any_managed();
  const ManagedDevice* const target = are_several ? owner_device(to) : nullptr;
  const ManagedDevice* const source = target != nullptr ? owner_device(from) : nullptr;
  using Function = typename HookType<Peer>::Function;
  const auto peer = reinterpret_cast<Function>(active_driver().hooks[static_cast<std::size_t>(Peer)]);
  if (source == nullptr || source == target || peer == nullptr)
    return kGated(call, to, from, size, stream...);
  return kGated(Call<Peer>{peer, call.caller}, to, target->context, from, source->context, size, stream...);
};

// Several copies are one record, without a size.
template <class C, class Collect, class Forward>
CUresult gate_batch(const C& call, CUstream stream, Collect&& collect_all, Forward&& forward) noexcept {
  return gate(call, stream, Waits::kNo, collect_all, forward, [&](Touched set) {
    record_copy(plan::CopyKind::kOther, 0, recorded_stream(stream, call.kPerThread), set);
  });
}

// The copies of one part of a batch: `collect(i, set)` adds what copy i names, `forward` makes them.
// `is_read_early`: the driver may read what is copied before the stream gets there.
template <class C, class Collect, class Forward>
CUresult copy_part(const C& call, CUstream stream, BatchPart part, bool is_read_early, Collect&& collect,
                   Forward&& forward) noexcept {
  const auto collect_all = [&](auto& set) {
    for (std::size_t i = part.first; i < part.first + part.count; ++i) collect(i, set);
  };
  const auto go = [&] { return gate_batch(call, stream, collect_all, forward); };
  return is_read_early && any_managed() ? call_with_bytes_there(collect_all, call.kName, go) : go();
}

// Of a batch that is captured a part would be a node of its own, in an order.
template <class Collect>
std::vector<BatchPart> parts_of(std::size_t count, Fate fate, Collect&& collect) {
  if (fate != Fate::kDone || !may_exceed_room()) return {{0, count}};
  const auto collect_here = [&](std::size_t i, TouchSet& set) { collect(i, set); };
  return parts_of_batch(count, collect_here);
}

// `rest`: where the version has it an index of what failed, and the stream.
constexpr auto kBatch = [](const auto& call, CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes,
                           std::size_t count, CUmemcpyAttributes* attributes, std::size_t* begins,
                           std::size_t groups, auto... rest) noexcept {
  const auto whole = [&] { return call(to, from, sizes, count, attributes, begins, groups, rest...); };
  const bool is_complete = to != nullptr && from != nullptr && sizes != nullptr && attributes != nullptr &&
                           begins != nullptr && groups != 0 && groups <= count;
  if (!is_complete) return whole();  // the driver's to refuse
  const CUstream stream = last_stream(rest...);
  const Fate fate = fate_of(stream, call.kPerThread);
  BroughtNames names;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult kept = names.keep(payload_of(to[i], from[i], sizes[i]), call.kName, fate);
    if (kept != CUDA_SUCCESS) return spoil_capture(stream, call.kPerThread, kept);
  }
  const auto collect = [&](std::size_t i, auto& set) {
    set.add(to[i]);
    set.add(from[i]);
  };
  const bool is_early = std::any_of(attributes, attributes + groups,
                                    [](const auto& one) { return is_read_early(one.srcAccessOrder); });
  CUresult result = CUDA_SUCCESS;
  for (const BatchPart part : parts_of(count, fate, collect)) {
    const auto forward = [&] {
      if (part.count == count) return whole();
      BatchAttributes own(attributes, begins, groups, part);
      return call(to + part.first, from + part.first, sizes + part.first, part.count, own.first,
                  own.indices.data(), own.indices.size(), rest...);
    };
    result = copy_part(call, stream, part, is_early, collect, forward);
    count_from(part.first, result, rest...);
    if (result != CUDA_SUCCESS) break;
    if (fate != Fate::kDone || !tables_exist()) continue;
    for (std::size_t i = part.first; i < part.first + part.count; ++i) note_written(to[i], from[i], sizes[i]);
  }
  if (result == CUDA_SUCCESS && fate == Fate::kDone) names.arrived();
  return result;
};

constexpr auto kBatch3D = [](const auto& call, std::size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                             auto... rest) noexcept {
  if (operations == nullptr) return call(count, operations, rest...);
  // Tables that these overwrite or copy are not looked for.
  const CUstream stream = last_stream(rest...);
  const Fate fate = fate_of(stream, call.kPerThread);
  BroughtNames names;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult kept = names.keep(payload_of(operations[i]), call.kName, fate);
    if (kept != CUDA_SUCCESS) return spoil_capture(stream, call.kPerThread, kept);
  }
  const auto add = [](const CUmemcpy3DOperand& operand, auto& set) {
    if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER) set.add(operand.op.ptr.ptr);
  };
  const auto collect = [&](std::size_t i, auto& set) {
    add(operations[i].src, set);
    add(operations[i].dst, set);
  };
  const bool is_early = std::any_of(operations, operations + count,
                                    [](const auto& one) { return is_read_early(one.srcAccessOrder); });
  CUresult result = CUDA_SUCCESS;
  for (const BatchPart part : parts_of(count, fate, collect)) {
    const auto forward = [&] { return call(part.count, operations + part.first, rest...); };
    result = copy_part(call, stream, part, is_early, collect, forward);
    count_from(part.first, result, rest...);
    if (result != CUDA_SUCCESS) break;
  }
  if (result == CUDA_SUCCESS && fate == Fate::kDone) names.arrived();
  return result;
};

constexpr auto kDecompress = [](const auto& call, CUmemDecompressParams* operations, std::size_t count,
                                unsigned flags, std::size_t* failed, CUstream stream) noexcept {
  const auto forward = [&] { return call(operations, count, flags, failed, stream); };
  if (operations == nullptr) return forward();
  const auto collect_all = [&](auto& set) {
    for (std::size_t i = 0; i < count; ++i) {
      collect(set, operations[i].src);
      collect(set, operations[i].dst);
      collect(set, operations[i].dstActBytes);
    }
  };
  return gate_batch(call, stream, collect_all, forward);
};

}  // namespace

TP_GATE(cuMemcpy, kLinear<Hook::cuMemcpyPeer>)
TP_GATE(cuMemcpy_ptds, kLinear<Hook::cuMemcpyPeer_ptds>)
TP_GATE_PTDS(cuMemcpyPeer, kGated)
TP_GATE_PTDS(cuMemcpyHtoD_v2, kGated)
TP_GATE_PTDS(cuMemcpyDtoH_v2, kGated)
TP_GATE(cuMemcpyDtoD_v2, kLinear<Hook::cuMemcpyPeer>)
TP_GATE(cuMemcpyDtoD_v2_ptds, kLinear<Hook::cuMemcpyPeer_ptds>)
TP_GATE_PTDS(cuMemcpyDtoA_v2, kGated)
TP_GATE_PTDS(cuMemcpyAtoD_v2, kGated)
TP_GATE_PTDS(cuMemcpy2D_v2, kGated)
TP_GATE_PTDS(cuMemcpy2DUnaligned_v2, kGated)
TP_GATE_PTDS(cuMemcpy3D_v2, kGated)
TP_GATE_PTDS(cuMemcpy3DPeer, kGated)
TP_GATE(cuMemcpyAsync, kLinear<Hook::cuMemcpyPeerAsync>)
TP_GATE(cuMemcpyAsync_ptsz, kLinear<Hook::cuMemcpyPeerAsync_ptsz>)
TP_GATE_PTSZ(cuMemcpyPeerAsync, kGated)
TP_GATE_PTSZ(cuMemcpyHtoDAsync_v2, kGated)
TP_GATE_PTSZ(cuMemcpyDtoHAsync_v2, kGated)
TP_GATE(cuMemcpyDtoDAsync_v2, kLinear<Hook::cuMemcpyPeerAsync>)
TP_GATE(cuMemcpyDtoDAsync_v2_ptsz, kLinear<Hook::cuMemcpyPeerAsync_ptsz>)
TP_GATE_PTSZ(cuMemcpy2DAsync_v2, kGated)
TP_GATE_PTSZ(cuMemcpy3DAsync_v2, kGated)
TP_GATE_PTSZ(cuMemcpy3DPeerAsync, kGated)
TP_GATE_PTSZ(cuMemcpyBatchAsync, kBatch)
TP_GATE_PTSZ(cuMemcpyBatchAsync_v2, kBatch)
TP_GATE_PTSZ(cuMemcpy3DBatchAsync, kBatch3D)
TP_GATE_PTSZ(cuMemcpy3DBatchAsync_v2, kBatch3D)
TP_GATE_PTSZ(cuMemBatchDecompressAsync, kDecompress)

TP_GATE_PTDS(cuMemsetD8_v2, kGated)
TP_GATE_PTDS(cuMemsetD16_v2, kGated)
TP_GATE_PTDS(cuMemsetD32_v2, kGated)
TP_GATE_PTDS(cuMemsetD2D8_v2, kGated)
TP_GATE_PTDS(cuMemsetD2D16_v2, kGated)
TP_GATE_PTDS(cuMemsetD2D32_v2, kGated)
TP_GATE_PTSZ(cuMemsetD8Async, kGated)
TP_GATE_PTSZ(cuMemsetD16Async, kGated)
TP_GATE_PTSZ(cuMemsetD32Async, kGated)
TP_GATE_PTSZ(cuMemsetD2D8Async, kGated)
TP_GATE_PTSZ(cuMemsetD2D16Async, kGated)
TP_GATE_PTSZ(cuMemsetD2D32Async, kGated)

}  // namespace tidepool::shim
