#include "shim/real_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>

#include "allocator/support/message.h"
#include "shim/process.h"

void* tp_real_dlsym = nullptr;

namespace tidepool::shim {

constinit RealDriver g_driver;

namespace {

struct Route {
  const void* function;
  Hook hook;
};

std::array<Route, kHookCount> g_routes;
std::size_t g_route_count = 0;
void* g_handle = nullptr;
bool g_found = false;
pthread_once_t g_once = PTHREAD_ONCE_INIT;

void* open_driver() noexcept {
  // What the program has already loaded, whatever path it used, has the same soname.
  if (void* handle = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) return handle;
  return ::dlopen("libcuda.so.1", RTLD_LAZY);
}

void find_all() noexcept {
  const DepthGuard guard;  // the driver's constructors may look up their own functions
  g_route_count = 0;       // a child that was forked in the middle of this starts again
  void* handle = open_driver();
  if (handle == nullptr) {
    const char* why = ::dlerror();
    report<Msg::TP1001>(why != nullptr ? why : "not found");
    return;
  }
  g_handle = handle;
  const auto find = [handle](const char* name) { return real_dlsym(handle, name); };
  for (std::size_t i = 0; i < kHookCount; ++i) {
    g_driver.hooks[i] = find(hook_row(static_cast<Hook>(i)).name);
    if (g_driver.hooks[i] != nullptr) g_routes[g_route_count++] = {g_driver.hooks[i], static_cast<Hook>(i)};
  }
  std::sort(g_routes.begin(), g_routes.begin() + g_route_count,
            [](const Route& a, const Route& b) { return a.function < b.function; });
  g_driver.missing = g_driver.runtime.fill(find);
#define TP_ASKED(name) g_driver.name = reinterpret_cast<decltype(g_driver.name)>(find(#name));
#include "shim/asked.def"
#undef TP_ASKED
  if (g_driver.missing == nullptr && g_driver.cuFuncGetParamInfo == nullptr) {
    g_driver.missing = "cuFuncGetParamInfo";
  }
  g_found = true;
}

}  // namespace

bool RealDriver::can_observe() const noexcept {
  const auto& d = runtime;
  return d.cuCtxGetCurrent != nullptr && d.cuCtxGetDevice != nullptr &&
         d.cuDevicePrimaryCtxGetState != nullptr && d.cuDevicePrimaryCtxRetain != nullptr &&
         d.cuDevicePrimaryCtxRelease_v2 != nullptr && d.cuDeviceTotalMem_v2 != nullptr &&
         d.cuStreamIsCapturing != nullptr && d.cuEventCreate != nullptr && d.cuEventDestroy_v2 != nullptr &&
         d.cuEventQuery != nullptr && d.cuEventRecord != nullptr;
}

const RealDriver* real_driver() noexcept {
  ::pthread_once(&g_once, &find_all);
  return g_found ? &g_driver : nullptr;
}

void* real_dlsym(void* handle, const char* name) noexcept {
  find_real_dlsym();
  return reinterpret_cast<void* (*)(void*, const char*)>(tp_real_dlsym)(handle, name);
}

void* next_definition(const HookRow& row) noexcept {
  return real_dlsym(RTLD_NEXT, row.name);
}

bool is_drivers(const void* function, const char* symbol) noexcept {
  return function != nullptr && real_driver() != nullptr && real_dlsym(g_handle, symbol) == function;
}

void* route(const void* function, std::string_view symbol, bool per_thread) noexcept {
  if (function == nullptr || real_driver() == nullptr) return nullptr;
  const auto end = g_routes.begin() + g_route_count;
  auto at = std::lower_bound(g_routes.begin(), end, function,
                             [](const Route& r, const void* f) { return r.function < f; });
  void* chosen = nullptr;
  for (; at != end && at->function == function; ++at) {
    const HookRow& row = hook_row(at->hook);
    const bool exact = std::string_view(row.name).starts_with(symbol) && row.per_thread == per_thread;
    if (chosen == nullptr || exact) chosen = row.entry;
    if (exact) break;
  }
  return chosen;
}

}  // namespace tidepool::shim
