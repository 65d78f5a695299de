// Lookups: by dlsym, and by cuGetProcAddress, where the driver answers first.

#include <dlfcn.h>
#include <link.h>

#include "shim/entry.h"
#include "shim/lookup.h"
#include "shim/next_runtime.h"
#include "shim/unknown_entry.h"

namespace tidepool::shim {
namespace {

constexpr auto kLookupV2 = [](const auto& call, const char* symbol, void** out, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult* status) noexcept {
  const CUresult result = call(symbol, out, version, flags, status);
  if (result == CUDA_SUCCESS) reroute(symbol, out, flags);
  return result;
};

constexpr auto kLookup = [](const auto& call, const char* symbol, void** out, int version,
                            cuuint64_t flags) noexcept {
  const CUresult result = call(symbol, out, version, flags);
  if (result == CUDA_SUCCESS) reroute(symbol, out, flags);
  return result;
};

}  // namespace

void* handle_dlsym(void* handle, const char* name) noexcept {
  return route_dlsym(handle, name);
}

// Programs ask the global scope whether there is a driver at all. A function of the driver that this library
// does not export is found there behind it: in a version that the table does not have it is guarded as in
// route_dlsym().
void* handle_global_dlsym(void* handle, const char* name, const void* caller) noexcept {
  const bool is_next_asked = handle == RTLD_NEXT;
  if (const Hook hook = find_hook(name); hook != Hook::kCount) {
    if (is_next_asked && !is_before(caller, hook_row(hook).entry)) return nullptr;
    return is_visible(name, caller) ? nullptr : kNoSymbol;
  }
  if (!is_hooked_base(name)) return nullptr;
  start_process();
  if (is_switched_off()) return nullptr;
  void* const found = real_dlsym(is_next_asked ? RTLD_NEXT : RTLD_DEFAULT, name);
  const bool leads_there = !is_next_asked || is_before(caller, found);
  return leads_there && is_drivers(found, name) ? guard_unknown(name, found) : nullptr;
}

// Programs ask the global scope whether there is a CUDA runtime at all. NCCL's functions are also called by
// pointers from dlsym (ctypes): as long as the process has one NCCL, ours leads there for every caller.
void* handle_library_dlsym(void* handle, const char* name, const void* caller) noexcept {
  const RuntimeHook hook = find_runtime_hook(name);
  if (hook == RuntimeHook::kCount || handle == RTLD_NEXT || t_depth != 0) return nullptr;
  if (handle == RTLD_DEFAULT || handle == _r_debug.r_map) {
    return is_visible(name, caller) ? nullptr : kNoSymbol;
  }
  start_process();
  if (is_switched_off()) return nullptr;
  return is_only_nccl(hook, real_dlsym(handle, name)) ? runtime_hook_entry(hook) : nullptr;
}

TP_HANDLE(cuGetProcAddress, kLookup)
TP_HANDLE(cuGetProcAddress_v2, kLookupV2)

}  // namespace tidepool::shim
