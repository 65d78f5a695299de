#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

struct ErrorRow {
  cudaError_t code;
  const char* name;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define SIMGPU_ERROR(code, text) {code, #code, text},
#include "tools/simgpu/runtime/errors.def"
#undef SIMGPU_ERROR
};

const ErrorRow* find_error(cudaError_t code) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

/// An error that ended the context stays: it is there again after it was read.
SIMGPU_RUNTIME(cudaGetLastError, ()) {
  return last_error(true);
}
SIMGPU_RUNTIME(cudaPeekAtLastError, ()) {
  return last_error(false);
}

extern "C" SIMGPU_EXPORT const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const ErrorRow* row = find_error(error);
  return row == nullptr ? "unrecognized error code" : row->name;
}

extern "C" SIMGPU_EXPORT const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const ErrorRow* row = find_error(error);
  return row == nullptr ? "unrecognized error code" : row->text;
}

}  // namespace simgpu::runtime
