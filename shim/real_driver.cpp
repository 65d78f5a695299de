#include "shim/real_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>

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

/// What there is to find out. Of several threads that do so at once the first one's is taken.
struct Found {
  RealDriver driver;
  std::array<Route, kHookCount> routes;
  std::size_t route_count = 0;
  void* handle = nullptr;
  const char* why_not = nullptr;  // the loader's, of the thread that asked
};

std::array<Route, kHookCount> g_routes;
std::size_t g_route_count = 0;
void* g_handle = nullptr;
bool g_found = false;
std::atomic<bool> g_is_known{false};  // all of the above, and g_driver
pthread_once_t g_once = PTHREAD_ONCE_INIT;
constinit thread_local const Found* t_found __attribute__((tls_model("initial-exec"))) = nullptr;

void* open_driver() noexcept {
  // What the program has already loaded, whatever path it used, has the same soname.
  if (void* handle = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) return handle;
  return ::dlopen("libcuda.so.1", RTLD_LAZY);
}

void find_all(Found& found) noexcept {
  const DepthGuard guard;  // the driver's constructors may look up their own functions
  void* const handle = open_driver();
  if (handle == nullptr) {
    const char* why = ::dlerror();
    found.why_not = why != nullptr ? why : "not found";
    return;
  }
  found.handle = handle;
  RealDriver& driver = found.driver;
  const auto find = [handle](const char* name) { return real_dlsym(handle, name); };
  for (std::size_t i = 0; i < kHookCount; ++i) {
    driver.hooks[i] = find(hook_row(static_cast<Hook>(i)).name);
    if (driver.hooks[i] != nullptr) {
      found.routes[found.route_count++] = {driver.hooks[i], static_cast<Hook>(i)};
    }
  }
  std::sort(found.routes.begin(), found.routes.begin() + found.route_count,
            [](const Route& a, const Route& b) { return a.function < b.function; });
  driver.missing = driver.runtime.fill(find);
#define TP_ASKED(name) driver.name = reinterpret_cast<decltype(driver.name)>(find(#name));
#include "shim/asked.def"
#undef TP_ASKED
  if (driver.missing == nullptr && driver.cuFuncGetParamInfo == nullptr) {
    driver.missing = "cuFuncGetParamInfo";
  }
}

void publish() noexcept {
  const DepthGuard guard;
  if (t_found->handle != nullptr) {
    g_driver = t_found->driver;
    g_routes = t_found->routes;
    g_route_count = t_found->route_count;
    g_handle = t_found->handle;
    g_found = true;
  } else {
    report<Msg::TP1001>(t_found->why_not);
  }
  g_is_known.store(true, std::memory_order_release);
}

// The loader is asked before the once is entered, never in it: a thread that holds the loader's lock, since
// it is in a dlopen whose constructors look up driver functions, may come here too. A child that was forked
// in the middle of this enters the once again.
[[gnu::noinline, gnu::cold]] void find_driver() noexcept {
  Found found;
  find_all(found);
  t_found = &found;
  ::pthread_once(&g_once, &publish);
  t_found = nullptr;
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
  if (!g_is_known.load(std::memory_order_acquire)) [[unlikely]]
    find_driver();
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
