// Lookups: by dlsym, and by cuGetProcAddress, where the driver answers first.

#include "shim/entry.h"
#include "shim/lookup.h"

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

TP_HANDLE(cuGetProcAddress, kLookup)
TP_HANDLE(cuGetProcAddress_v2, kLookupV2)

}  // namespace tidepool::shim
