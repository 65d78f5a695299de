#pragma once

#include "shim/hook_table.h"
#include "shim/process.h"
#include "shim/real_driver.h"
#include "tools/probe/doors/call_counts.h"

namespace tidepool::doors {

/// Nothing before or after the call.
struct JustCount {
  template <class... A>
  static void before(const void*, A...) noexcept {}
  template <class... A>
  static void after(CUresult, const void*, A...) noexcept {}
};

/// What an exported symbol does here: the call goes on to the driver as it is and is counted, unless it comes
/// from inside another one (the driver's own calls while it serves one are not the program's).
/// `What::before(caller, args...)` and `What::after(result, caller, args...)` see it; `caller` is an address
/// in the module that calls.
template <shim::Hook H, class What, class F = typename shim::HookType<H>::Function>
struct CountedEntry;
template <shim::Hook H, class What, class... A>
struct CountedEntry<H, What, CUresult (*)(A...)> {
  using Function = typename shim::HookType<H>::Function;

  static CUresult call(A... args) noexcept {
    const void* const caller = __builtin_return_address(0);
    // As in shim/entry.h: a constructor of the driver, run by our own dlopen of it.
    if (shim::t_depth != 0 && shim::g_mode.load(std::memory_order_acquire) == shim::Mode::kCold) {
      const auto next = reinterpret_cast<Function>(shim::next_definition(shim::hook_row(H)));
      return next != nullptr ? next(args...) : CUDA_ERROR_NOT_INITIALIZED;
    }
    const shim::Mode mode = shim::enter_process();
    const shim::RealDriver* const driver = shim::real_driver();
    if (driver == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    const auto real = reinterpret_cast<Function>(driver->hooks[static_cast<std::size_t>(H)]);
    if (real == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    if (mode != shim::Mode::kActive || shim::t_depth != 0) return real(args...);
    const shim::DepthGuard guard;
    What::before(caller, args...);
    const CUresult result = real(args...);
    What::after(result, caller, args...);
    count_call(H, result);
    return result;
  }
};

}  // namespace tidepool::doors
