#include <string_view>

#include "tools/simgpu/driver/api.h"

/// "Driver Entry Point Access" of the CUDA driver API.

namespace simgpu {
namespace {

constexpr int kDriverVersion = 13000;
constexpr int kTwinsSince = 7000;

struct Row {
  const char* base;
  int since;
  void* function;
  void* twin;  ///< null: none
};

#define SIMGPU_TWIN_NONE(exported) nullptr
#define SIMGPU_TWIN_PTSZ(exported) reinterpret_cast<void*>(&exported##_ptsz)
#define SIMGPU_TWIN_PTDS(exported) reinterpret_cast<void*>(&exported##_ptds)

const Row kRows[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) \
  {#base, since, reinterpret_cast<void*>(&exported), SIMGPU_TWIN_##twin(exported)},
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};

CUresult look_up(const char* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnownFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (version > kDriverVersion) return CUDA_ERROR_INVALID_VALUE;
  const Row* best = nullptr;
  bool known = false;
  for (const Row& row : kRows) {
    if (std::string_view(row.base) != name) continue;
    known = true;
    if (row.since <= version && (best == nullptr || row.since > best->since)) best = &row;
  }
  *out = nullptr;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  if (best != nullptr) {
    const bool twin = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && best->twin != nullptr &&
                      version >= kTwinsSince;
    *out = twin ? best->twin : best->function;
  } else if (known) {
    *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  } else {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    note_unknown_entry(name);
  }
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

}  // namespace simgpu
