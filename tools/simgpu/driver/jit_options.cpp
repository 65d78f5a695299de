#include "tools/simgpu/driver/jit_options.h"

#include <cstdint>
#include <cstring>

namespace simgpu {
namespace {

/// The size that goes with a log buffer stands in another slot.
void** slot_of(CUjit_option wanted, const CUjit_option* options, void** values, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == wanted) return &values[i];
  }
  return nullptr;
}

void empty_log(CUjit_option buffer, CUjit_option size, const CUjit_option* options, void** values,
               unsigned count) {
  void** size_slot = slot_of(size, options, values, count);
  void** buffer_slot = slot_of(buffer, options, values, count);
  if (size_slot == nullptr) return;
  const auto bytes = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(*size_slot));
  if (buffer_slot != nullptr && *buffer_slot != nullptr && bytes > 0) std::memset(*buffer_slot, 0, bytes);
  *size_slot = nullptr;  // how many bytes were written
}

}  // namespace

CUresult take_jit_options(const CUjit_option* options, void** values, unsigned count) {
  if (count == 0) return CUDA_SUCCESS;
  if (options == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
  }
  empty_log(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, options, values, count);
  empty_log(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, options, values, count);
  if (void** time = slot_of(CU_JIT_WALL_TIME, options, values, count)) {
    constexpr float kNone = 0;
    std::memcpy(time, &kNone, sizeof kNone);
  }
  return CUDA_SUCCESS;
}

}  // namespace simgpu
