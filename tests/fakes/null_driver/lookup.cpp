// Lookups of the null driver, over all its tables.

#include <cuda.h>

#include <span>
#include <string>

#include "tests/fakes/null_driver/entry_table.h"

/// Base name, version and flags to a symbol: the per-thread twin first where it is asked for, _v2 before the
/// plain name. Never asks dlsym, which whoever is preloaded may answer instead of us.
extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(
    const char* symbol, void** out, int, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const std::string name = symbol;
  std::string candidates[] = {name + "_v2_ptsz", name + "_v2_ptds", name + "_ptsz",
                              name + "_ptds",    name + "_v2",      name};
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  for (const std::string& candidate : std::span(candidates).subspan(per_thread ? 0 : 4)) {
    for (const auto& table : {tidepool::fakes::null_behaviour_entries(), tidepool::fakes::null_hook_entries(),
                              tidepool::fakes::null_driver_entries()}) {
      for (const auto& entry : table) {
        if (candidate != entry.name) continue;
        *out = entry.function;
        if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
      }
    }
  }
  *out = nullptr;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}
