#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/unsupported.h"

/// "Driver Entry Point Access" of the CUDA driver API.

namespace simgpu {
namespace {

constexpr int kTwinsSince = 7000;
static_assert(kNotSupported == CUDA_ERROR_NOT_SUPPORTED);

#define SIMGPU_TWIN_NONE(exported) nullptr
#define SIMGPU_TWIN_PTSZ(exported) reinterpret_cast<void*>(&exported##_ptsz)
#define SIMGPU_TWIN_PTDS(exported) reinterpret_cast<void*>(&exported##_ptds)

const EntryRow kRows[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) \
  {#base, since, reinterpret_cast<void*>(&exported), SIMGPU_TWIN_##twin(exported)},
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

using Versions = std::vector<const EntryRow*>;

/// Every name with its versions, the newest first. Leaked: exit handlers look things up too.
const std::unordered_map<std::string_view, Versions>& entry_index() {
  static const auto* made = [] {
    auto* index = new std::unordered_map<std::string_view, Versions>;
    for (const EntryRow& row : kRows) (*index)[row.base].push_back(&row);
    for (const EntryRow& row : unsupported_rows()) (*index)[row.base].push_back(&row);
    for (auto& [name, versions] : *index) {
      std::sort(versions.begin(), versions.end(),
                [](const EntryRow* a, const EntryRow* b) { return a->since > b->since; });
    }
    return index;
  }();
  return *made;
}

CUresult look_up(const char* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnownFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (version > kDriverVersion) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const auto found = entry_index().find(name);
  if (found == entry_index().end()) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    note_unknown_entry(name);
    return CUDA_SUCCESS;
  }
  for (const EntryRow* row : found->second) {
    if (row->since > version) continue;
    const bool twin = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && row->twin != nullptr &&
                      version >= kTwinsSince;
    *out = twin ? row->twin : row->function;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  return CUDA_SUCCESS;
}

}  // namespace

/// The form without a status says "not found" by its result.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetProcAddress(const char* name, void** out, int version,
                                                           cuuint64_t flags) {
  count_call(Entry::cuGetProcAddress);
  CUdriverProcAddressQueryResult status{};
  const CUresult result = look_up(name, out, version, flags, &status);
  if (result != CUDA_SUCCESS) return result;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out, int version,
                                                              cuuint64_t flags,
                                                              CUdriverProcAddressQueryResult* status) {
  count_call(Entry::cuGetProcAddress_v2);
  CUdriverProcAddressQueryResult found{};
  const CUresult result = look_up(name, out, version, flags, &found);
  if (result == CUDA_SUCCESS && status != nullptr) *status = found;
  return result;
}

/// See simgpu/abi.h.
extern "C" SIMGPU_EXPORT void simgpuNote(const char* name) {
  if (name != nullptr) note_unsupported(name);
}

}  // namespace simgpu
