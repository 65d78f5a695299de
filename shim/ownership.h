#pragma once

#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/graph_memory.h"
#include "shim/make_way.h"
#include "shim/managed.h"
#include "shim/module_owner.h"
#include "shim/observe.h"
#include "shim/outside_memory.h"
#include "shim/pools.h"
#include "shim/real_driver.h"
#include "shim/runtime_door.h"

namespace tidepool::shim {

/// Who asks for memory by a call that returns to `caller` (Call::caller): a CUDA runtime asks for who called
/// it, as far as that is known. Hook-safe.
inline Module who_asks(const void* caller) noexcept {
  const Module module = module_of(t_first_caller != nullptr ? t_first_caller : caller);
  return module.owner == Owner::kCudart ? module_of(runtime_mark().caller) : module;
}

/// The device of the current context; -1 where there is none.
CUdevice current_device() noexcept;

/// The device of a context, which need not be the current one; -1 where the driver does not say.
CUdevice device_of(CUcontext context) noexcept;

/// Can kernels and copies of the first device get to memory of the second?
bool can_reach(CUdevice user, CUdevice owner) noexcept;

/// The device on which work in the stream runs; -1 where the driver does not say.
CUdevice device_of_stream(CUstream stream) noexcept;

/// Counts memory that the driver gave in the current context. Returns the device that it is on.
CUdevice note_outside(CUdeviceptr at, std::size_t size, const char* library) noexcept;

/// The primary context of a device; null if it is not active. Creates none.
CUcontext primary_context(CUdevice device) noexcept;

namespace detail {
// How much an allocation call asks for, from its arguments behind the first: (size, ...) or
// (pitch, width, height, element). Rows of the second are padded by less than 512 bytes.
template <class... Rest>
Bytes asked(std::size_t size, Rest...) noexcept {
  return Bytes(size);
}
inline Bytes asked(const std::size_t*, std::size_t width, std::size_t height, unsigned) noexcept {
  return Bytes(width).round_up(Bytes(512)) * height;
}

/// Is the call captured? Then the memory will be a graph's.
template <class... Rest>
bool is_for_graph(bool, Rest...) noexcept {
  return false;
}
inline bool is_for_graph(bool per_thread, std::size_t, CUstream stream) noexcept {
  return is_capturing(stream, per_thread);
}
inline bool is_for_graph(bool per_thread, std::size_t, CUmemoryPool, CUstream stream) noexcept {
  return is_capturing(stream, per_thread);
}

/// On which device the memory will be, as far as that can be told before the call.
template <class... Rest>
CUdevice device_for(Rest...) noexcept {
  return current_device();
}
inline CUdevice device_for(std::size_t, CUstream stream) noexcept {
  return device_of_stream(stream);
}
inline CUdevice device_for(std::size_t, CUmemoryPool pool, CUstream stream) noexcept {
  const CUdevice device = device_of_pool(pool);
  return device >= 0 ? device : device_of_stream(stream);
}
}  // namespace detail

/// The real allocation function, for memory that is not managed, for whatever reason: room is made for what
/// is asked for, and what comes back is counted. The first argument receives the address.
template <class C>
struct OutsideCall {
  const C& call;
  const char* library;  ///< as in OutsideMemory
  static constexpr bool kPerThread = C::kPerThread;

  template <class... Rest>
  [[gnu::noinline, gnu::cold]] CUresult operator()(CUdeviceptr* out, Rest... rest) const noexcept {
    const Bytes size = detail::asked(rest...);
    const CUdevice here = detail::device_for(rest...);
    if (detail::is_for_graph(kPerThread, rest...)) {
      const auto make = [&] { return call(out, rest...); };
      return make_allocation_node(C::kName, here, size, make);
    }
    CUdevice there = here;
    CUresult result = CUDA_SUCCESS;
    {
      const Room room(here, size);
      result = with_room([&] { return call(out, rest...); }, size);
      if (result != CUDA_SUCCESS || out == nullptr) return result;
      const bool is_observed = observes() && library[0] == '\0' && observe(kPerThread, *out, rest...);
      if (!is_observed) there = note_outside(*out, size.count(), library);
    }
    if (there != here) settle_outside(there);
    return result;
  }
};

/// Handler for an allocation: what a CUDA library asks for is the driver's; the rest is `Handler`'s.
template <auto Handler>
inline constexpr auto kByOwner = [](const auto& call, CUdeviceptr* out, auto... rest) noexcept {
  const Module asks = who_asks(call.caller);
  const bool is_librarys = asks.owner == Owner::kLibrary || asks.owner == Owner::kDriver;
  const OutsideCall<std::remove_cvref_t<decltype(call)>> outside{call, is_librarys ? asks.name : ""};
  return is_librarys ? outside(out, rest...) : Handler(outside, out, rest...);
};

/// Handler for a free of an address, the first argument: `Handler`'s, and no longer counted if it was.
template <auto Handler>
inline constexpr auto kFreeByOwner = [](const auto& call, CUdeviceptr at, auto... rest) noexcept {
  if (observes() && at != 0 && owner(at) == nullptr) [[unlikely]] {
    if (const auto seen = observe_free(call.kPerThread, at, rest...); seen.id != runtime::kNoBlock) {
      const CUresult freed = Handler(call, at, rest...);
      if (freed != CUDA_SUCCESS) observe_again(seen);
      return freed;
    }
  }
  if (at == 0 || owner(at) != nullptr) return Handler(call, at, rest...);
  const LeavingRoom leaving(at);
  const CUresult result = Handler(call, at, rest...);
  if (result != CUDA_SUCCESS) leaving.stays();
  return result;
};

}  // namespace tidepool::shim
