#include "shim/lookup.h"

#include <string_view>

#include "shim/hook_table.h"
#include "shim/real_driver.h"
#include "shim/unknown_entry.h"

namespace tidepool::shim {

void* route_dlsym(void* handle, const char* name) noexcept {
  const std::string_view symbol(name);
  if (find_hook(symbol) != Hook::kCount) {
    return route(real_dlsym(handle, name), symbol, symbol.ends_with("_ptsz") || symbol.ends_with("_ptds"));
  }
  // One of our names in a version that the table does not have, as in reroute().
  if (!is_hooked_base(symbol)) return nullptr;
  void* function = real_dlsym(handle, name);
  return is_drivers(function, name) ? guard_unknown(name, function) : nullptr;
}

void reroute(const char* symbol, void** out, cuuint64_t flags) noexcept {
  if (symbol == nullptr || out == nullptr || *out == nullptr) return;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  if (void* hook = route(*out, symbol, per_thread)) {
    *out = hook;
    return;
  }
  // One of our names, in a version that the table does not have: it may name memory that is not there.
  if (is_hooked_base(symbol)) *out = guard_unknown(symbol, *out);
}

}  // namespace tidepool::shim
