#pragma once

#include <cuda.h>

#include <cstddef>

#include "shim/entry.h"
#include "shim/managed.h"
#include "shim/module_owner.h"
#include "shim/outside_memory.h"
#include "shim/real_driver.h"
#include "shim/runtime_door.h"

namespace tidepool::shim {

/// Who asks for memory by a call that returns to `caller` (Call::caller): a CUDA runtime asks for who called
/// it, as far as that is known. Hook-safe.
inline Module who_asks(const void* caller) noexcept {
  const Module module = module_of(t_first_caller != nullptr ? t_first_caller : caller);
  return module.owner == Owner::kCudart ? module_of(runtime_mark().caller) : module;
}

/// Counts memory that the driver gave in the current context.
void note_outside(CUdeviceptr at, std::size_t size, const char* library) noexcept;

/// The primary context of a device; null if it is not active. Creates none.
CUcontext primary_context(CUdevice device) noexcept;

namespace detail {
// How much an allocation call has given, from its arguments behind the first: (size, ...) or
// (pitch, width, height, element).
template <class... Rest>
std::size_t given(std::size_t size, Rest...) noexcept {
  return size;
}
inline std::size_t given(const std::size_t* pitch, std::size_t, std::size_t height, unsigned) noexcept {
  return *pitch * height;
}
}  // namespace detail

/// Handler for an allocation: what a CUDA library asks for is the driver's; the rest is `Handler`'s. What
/// comes back and is not managed, for whatever reason, is counted. The first argument receives the address.
template <auto Handler>
inline constexpr auto kByOwner = [](const auto& call, CUdeviceptr* out, auto... rest) noexcept {
  const Module asks = who_asks(call.caller);
  const bool is_librarys = asks.owner == Owner::kLibrary || asks.owner == Owner::kDriver;
  const CUresult result = is_librarys ? call(out, rest...) : Handler(call, out, rest...);
  if (result == CUDA_SUCCESS && out != nullptr && owner(*out) == nullptr) {
    note_outside(*out, detail::given(rest...), is_librarys ? asks.name : "");
  }
  return result;
};

/// Handler for a free of an address, the first argument: `Handler`'s, and no longer counted if it was.
template <auto Handler>
inline constexpr auto kFreeByOwner = [](const auto& call, CUdeviceptr at, auto... rest) noexcept {
  const OutsideMemory outside = at != 0 && owner(at) == nullptr ? remove_outside(at) : OutsideMemory{};
  const CUresult result = Handler(call, at, rest...);
  if (result != CUDA_SUCCESS && outside.size != Bytes()) add_outside(outside);
  return result;
};

}  // namespace tidepool::shim
