#include "tools/simgpu/driver/api.h"

namespace simgpu {
namespace {

struct ErrorRow {
  CUresult code;
  const char* name;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define SIMGPU_ERROR(code, text) {code, #code, text},
#include "tools/simgpu/driver/errors.def"
#undef SIMGPU_ERROR
};

const ErrorRow* find_error(CUresult code) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  count_call(Entry::cuGetErrorName);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* row = find_error(error);
  *name = row == nullptr ? nullptr : row->name;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  count_call(Entry::cuGetErrorString);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorRow* row = find_error(error);
  *text = row == nullptr ? nullptr : row->text;
  return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/// simgpu has no private tables; programs with static cudart need them and cannot run on it.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  count_call(Entry::cuGetExportTable);
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace simgpu
