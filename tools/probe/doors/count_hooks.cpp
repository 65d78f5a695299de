// The handlers of libtidepool-count.so: every row of hooks.def is counted and goes on. Launches are looked
// at, and so is what programs ask for by name.

#include <string_view>

#include "shim/lookup.h"
#include "shim/unknown_entry.h"
#include "tools/probe/doors/asked_names.h"
#include "tools/probe/doors/count_entry.h"
#include "tools/probe/doors/kernel_layouts.h"

namespace tidepool::doors {
namespace {

ParameterForm form_of(void** params, void** extra) noexcept {
  if (params != nullptr) return ParameterForm::kArray;
  return extra != nullptr ? ParameterForm::kBuffer : ParameterForm::kOther;
}

/// cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel and those before them.
struct Launch : JustCount {
  static void before(const void* caller, CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, CUstream, void** params, void** extra) noexcept {
    note_launch(f, form_of(params, extra), caller);
  }
  static void before(const void* caller, CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, CUstream, void** params) noexcept {
    note_launch(f, form_of(params, nullptr), caller);
  }
  static void before(const void* caller, const CUlaunchConfig*, CUfunction f, void** params,
                     void** extra) noexcept {
    note_launch(f, form_of(params, extra), caller);
  }
  static void before(const void* caller, CUDA_LAUNCH_PARAMS* launches, unsigned count, unsigned) noexcept {
    for (unsigned i = 0; launches != nullptr && i < count; ++i)
      note_launch(launches[i].function, ParameterForm::kArray, caller);
  }
  template <class... Grid>
  static void before(const void* caller, CUfunction f, Grid...) noexcept {
    note_launch(f, ParameterForm::kOther, caller);
  }
};

/// Before the call: once it has begun, another thread may be given a handle of the old kernels.
struct Unload : JustCount {
  template <class Handle>
  static void before(const void*, Handle) noexcept {
    note_unload();
  }
};

void note_lookup(const char* door, const void* caller, const char* symbol, const void* found, int version,
                 cuuint64_t flags) noexcept {
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u') return;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const bool is_known = shim::is_hooked_base(symbol);
  if (is_known && (found == nullptr || shim::route(found, symbol, per_thread) != nullptr)) return;
  note_asked({door, symbol, version, flags, found != nullptr, caller}, is_known);
}

struct Lookup : JustCount {
  static void after(CUresult result, const void* caller, const char* symbol, void** out, int version,
                    cuuint64_t flags, CUdriverProcAddressQueryResult*) noexcept {
    answer("cuGetProcAddress_v2", result, caller, symbol, out, version, flags);
  }
  static void after(CUresult result, const void* caller, const char* symbol, void** out, int version,
                    cuuint64_t flags) noexcept {
    answer("cuGetProcAddress", result, caller, symbol, out, version, flags);
  }

 private:
  static void answer(const char* door, CUresult result, const void* caller, const char* symbol, void** out,
                     int version, cuuint64_t flags) noexcept {
    const bool had = result == CUDA_SUCCESS && out != nullptr;
    note_lookup(door, caller, symbol, had ? *out : nullptr, version, flags);
    if (had) shim::reroute(symbol, out, flags);
  }
};

/// Which of these sees a row.
template <shim::Hook H>
constexpr auto seen_by() noexcept {
  constexpr std::string_view kName = shim::HookType<H>::kName;
  if constexpr (kName.starts_with("cuLaunch")) {
    return Launch{};
  } else if constexpr (kName.starts_with("cuGetProcAddress")) {
    return Lookup{};
  } else if constexpr (kName.ends_with("Unload")) {
    return Unload{};
  } else {
    return JustCount{};
  }
}

}  // namespace
}  // namespace tidepool::doors

namespace tidepool::shim {

void* handle_dlsym(void* handle, const char* name) noexcept {
  // Who asks stands behind the door's own jump, where it cannot be told.
  if (g_mode.load(std::memory_order_acquire) != Mode::kPassthrough && find_hook(name) == Hook::kCount) {
    doors::note_lookup("dlsym", nullptr, name, real_dlsym(handle, name), 0, 0);
  }
  return route_dlsym(handle, name);
}

// Such a search finds the exported names by itself.
void* handle_global_dlsym(void*, const char*, const void*) noexcept {
  return nullptr;
}

// It has none.
void* handle_library_dlsym(void*, const char*, const void*) noexcept {
  return nullptr;
}

bool handle_unknown(const char* symbol) noexcept {
  if (t_depth == 0 && g_mode.load(std::memory_order_acquire) == Mode::kActive) {
    doors::count_guarded_call(symbol);
  }
  return true;
}

}  // namespace tidepool::shim

#define TP_COUNT(name)                                                                          \
  extern "C" {                                                                                  \
  extern ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name      \
      __attribute__((visibility("hidden")));                                                    \
  constinit ::tidepool::shim::HookType<::tidepool::shim::Hook::name>::Function tp_slot_##name = \
      &::tidepool::doors::CountedEntry<                                                         \
          ::tidepool::shim::Hook::name,                                                         \
          decltype(::tidepool::doors::seen_by<::tidepool::shim::Hook::name>())>::call;          \
  }
#define TP_HOOK(name, policy) TP_COUNT(name)
#define TP_HOOK_PTSZ(name, policy) TP_COUNT(name) TP_COUNT(name##_ptsz)
#define TP_HOOK_PTDS(name, policy) TP_COUNT(name) TP_COUNT(name##_ptds)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#undef TP_COUNT
