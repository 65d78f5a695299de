// cuGetProcAddress: the driver answers first, so that versions, twins and symbolStatus are its own; then the
// returned pointer, not the name, decides whether one of our hooks takes its place.

#include <string_view>

#include "shim/entry.h"
#include "shim/unknown_entry.h"

namespace tidepool::shim {
namespace {

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

TP_HANDLE(cuGetProcAddress, kLookup)
TP_HANDLE(cuGetProcAddress_v2, kLookupV2)

}  // namespace tidepool::shim
