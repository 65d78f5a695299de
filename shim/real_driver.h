#pragma once

#include <cuda.h>

#include <cstdint>
#include <string_view>

#include "allocator/cuda/driver.h"
#include "shim/hook_table.h"

/// The C library's dlsym; null until find_real_dlsym(). A plain name, because the dlsym door jumps to it.
extern "C" __attribute__((visibility("hidden"))) void* tp_real_dlsym;

namespace tidepool::shim {

/// The driver's own functions: those of hooks.def, those that the runtime calls, and those that the shim
/// asks. A pointer is null where the driver has no such entry.
struct RealDriver {
  void* hooks[kHookCount] = {};
  runtime::DriverTable runtime;
#define TP_ASKED(name) decltype(&::name) name = nullptr;
#include "shim/asked.def"
#undef TP_ASKED
  /// First entry that management needs and the driver lacks; null if it has all.
  const char* missing = nullptr;
  /// True if it has what watching memory needs.
  [[nodiscard]] bool can_observe() const noexcept;
};

/// The function behind ours in the order of loading (RTLD_NEXT); null where the driver was loaded for others
/// only. For calls before real_driver() has found the driver.
void* next_definition(const HookRow& row) noexcept;

/// Opens libcuda.so.1 and finds its functions, once; null if it cannot be opened. Calls nothing in it. May be
/// called inside dlsym.
const RealDriver* real_driver() noexcept;

/// The same without asking; only once the process is active (process.h), as every handler may assume.
extern RealDriver g_driver;
inline const RealDriver& active_driver() noexcept {
  return g_driver;
}

/// Finds the C library's dlsym, for real_dlsym() and for the jump in the dlsym door. Leaves dlerror alone.
void find_real_dlsym() noexcept;
/// The C library's dlsym.
void* real_dlsym(void* handle, const char* name) noexcept;

/// True if the function is what the driver itself has under that name.
bool is_drivers(const void* function, const char* symbol) noexcept;

/// The hook to hand out instead of a function of the driver, or null: the function is not one of ours.
/// Several names can share one address (a twin of a function without a stream): `symbol` and `per_thread`
/// choose among them.
void* route(const void* function, std::string_view symbol, bool per_thread) noexcept;

}  // namespace tidepool::shim
