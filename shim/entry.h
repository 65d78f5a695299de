#pragma once

#include <type_traits>
#include <utility>

#include "allocator/support/no_cancel.h"
#include "shim/hook_table.h"
#include "shim/managed.h"
#include "shim/observe.h"
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
    const CUresult result = real(args...);
    if (result != CUDA_SUCCESS) [[unlikely]]
      runtime::note_failure(runtime::Status(static_cast<int>(result)));
    return result;
  }
};

/// Does a hook have anything to do before memory of the process is managed or watched? Handlers of launches,
/// copies and memsets say not: until then they pass the call on.
enum class Idle : bool { kWorks, kForwards };

/// The gate of every hook: lazy start, re-entrance, mode. A handler is called as
/// `handler(Call<H>, args...)`; it does not throw.
template <Hook H, auto Handler, Idle kIdle = Idle::kWorks, class F = typename HookType<H>::Function>
struct Entry;
template <Hook H, auto Handler, Idle kIdle, class... A>
struct Entry<H, Handler, kIdle, CUresult (*)(A...)> {
  using Function = typename HookType<H>::Function;

  [[gnu::noinline]] static CUresult call(A... args) noexcept {
    if (g_mode.load(std::memory_order_acquire) != Mode::kActive || t_depth != 0) [[unlikely]] {
      return call_outside(__builtin_return_address(0), args...);
    }
    const auto real = reinterpret_cast<Function>(active_driver().hooks[static_cast<std::size_t>(H)]);
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    note_default_streams(args...);
    // A jump: nothing of ours is on the stack meanwhile that a thread which is cancelled could leave behind.
    if (kIdle == Idle::kForwards && !any_managed() && !observes()) return real(args...);
    // The exported symbol jumps to call(), so this is where the program's own call returns to.
    if constexpr (kIdle == Idle::kForwards) return work_apart(real, __builtin_return_address(0), args...);
    return work(real, __builtin_return_address(0), args...);
  }

 private:
  // So that call() needs no frame where it jumps.
  [[gnu::noinline]] static CUresult work_apart(Function real, const void* caller, A... args) noexcept {
    return work(real, caller, args...);
  }
  [[gnu::always_inline]] static inline CUresult work(Function real, const void* caller, A... args) noexcept {
    const DepthGuard guard;
    const NoCancel no_cancel;
    return Handler(Call<H>{real, caller}, args...);
  }

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
#define TP_HANDLE_AS(name, handler, idle)                                                                  \
  extern "C" {                                                                                             \
  extern ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name                 \
      __attribute__((visibility("hidden")));                                                               \
  constinit ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name =            \
      &::tidepool::shim::Entry<::tidepool::shim::Hook::name, handler, ::tidepool::shim::Idle::idle>::call; \
  }
#define TP_HANDLE(name, handler) TP_HANDLE_AS(name, handler, kWorks)
#define TP_HANDLE_PTSZ(name, handler) TP_HANDLE(name, handler) TP_HANDLE(name##_ptsz, handler)
#define TP_HANDLE_PTDS(name, handler) TP_HANDLE(name, handler) TP_HANDLE(name##_ptds, handler)
// The same for handlers that only have to do with managed memory (Idle::kForwards).
#define TP_GATE(name, handler) TP_HANDLE_AS(name, handler, kForwards)
#define TP_GATE_PTSZ(name, handler) TP_GATE(name, handler) TP_GATE(name##_ptsz, handler)
#define TP_GATE_PTDS(name, handler) TP_GATE(name, handler) TP_GATE(name##_ptds, handler)
