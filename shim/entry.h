#pragma once

#include <type_traits>
#include <utility>

#include "allocator/support/no_cancel.h"
#include "shim/hook_table.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "shim/stream_context.h"

namespace tidepool::shim {

/// One intercepted call, as a handler sees it.
template <Hook H>
struct Call {
  typename HookType<H>::Function real;
  /// Where the call returns to. Inside this library for the first call of a process: ask who_asks()
  /// (ownership.h).
  const void* caller;
  /// The null stream means the calling thread's own stream, not the legacy one.
  static constexpr bool kPerThread = HookType<H>::kPerThread;
  static constexpr const char* kName = HookType<H>::kName;

  template <class... A>
  CUresult operator()(A... args) const noexcept {
    return real(args...);
  }
};

/// The gate of every hook: lazy start, re-entrance, mode. A handler is called as
/// `handler(Call<H>, args...)`; it does not throw.
template <Hook H, auto Handler, class F = typename HookType<H>::Function>
struct Entry;
template <Hook H, auto Handler, class... A>
struct Entry<H, Handler, CUresult (*)(A...)> {
  using Function = typename HookType<H>::Function;

  [[gnu::noinline]] static CUresult call(A... args) noexcept {
    if (g_mode.load(std::memory_order_acquire) != Mode::kActive || t_depth != 0) [[unlikely]] {
      return call_outside(__builtin_return_address(0), args...);
    }
    const auto real = reinterpret_cast<Function>(active_driver().hooks[static_cast<std::size_t>(H)]);
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    note_default_streams(args...);
    const DepthGuard guard;
    const NoCancel no_cancel;
    // The exported symbol jumps here, so this is where the program's own call returns to.
    return Handler(Call<H>{real, __builtin_return_address(0)}, args...);
  }

 private:
  // Threads' own default streams are blocking ones. Of an entry that means them by the null stream, any call
  // may use one.
  [[gnu::always_inline]] static inline void note_default_streams(A... args) noexcept {
    [[maybe_unused]] const auto is_own = [](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), CUstream>) return arg == CU_STREAM_PER_THREAD;
      return false;
    };
    if (HookType<H>::kPerThread || (is_own(args) || ...)) note_blocking_stream();
  }

  // The process' first call, a process that is not managed, or a call from inside ourselves.
  [[gnu::noinline]] static CUresult call_outside(const void* caller, A... args) noexcept {
    // The driver's own constructors, run by our dlopen of it, may come here: waiting for ourselves would
    // hang.
    if (t_depth != 0 && g_mode.load(std::memory_order_acquire) == Mode::kCold) {
      const auto real = reinterpret_cast<Function>(next_definition(hook_row(H)));
      return real != nullptr ? real(args...) : CUDA_ERROR_NOT_INITIALIZED;
    }
    const Mode mode = enter_process();
    const RealDriver* driver = real_driver();
    if (driver == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    if (mode == Mode::kActive && t_depth == 0) {
      const FirstCall first(caller);
      return call(args...);
    }
    const auto real = reinterpret_cast<Function>(driver->hooks[static_cast<std::size_t>(H)]);
    return real != nullptr ? real(args...) : CUDA_ERROR_NOT_SUPPORTED;
  }
};

}  // namespace tidepool::shim

// Makes the exported symbol `name` (and its twin) go through `handler`, a generic lambda or function template
// object. One of these stands for every row of hooks.def; a missing one does not link.
#define TP_HANDLE(name, handler)                                                                \
  extern "C" {                                                                                  \
  extern ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name      \
      __attribute__((visibility("hidden")));                                                    \
  constinit ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name = \
      &::tidepool::shim::Entry<::tidepool::shim::Hook::name, handler>::call;                    \
  }
#define TP_HANDLE_PTSZ(name, handler) TP_HANDLE(name, handler) TP_HANDLE(name##_ptsz, handler)
#define TP_HANDLE_PTDS(name, handler) TP_HANDLE(name, handler) TP_HANDLE(name##_ptds, handler)
