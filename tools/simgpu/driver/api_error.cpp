#include <string>

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

std::string uuid_text(const CUuuid& id) {
  std::string text;
  for (std::size_t i = 0; i < sizeof id.bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(id.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
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

/// simgpu has no private tables; programs with static cudart need them and cannot run on it. Which were asked
/// for is in the report.
extern "C" SIMGPU_EXPORT CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  count_call(Entry::cuGetExportTable);
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  note_export_table(uuid_text(*id).c_str());
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace simgpu
