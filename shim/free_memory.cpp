#include "shim/free_memory.h"

#include "shim/buffer_ids.h"
#include "shim/pools.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

// The pool that it came from counts it no longer.
template <class Free>
CUresult give_back(runtime::Runtime& runtime, CUdeviceptr at, Free&& free) noexcept {
  const runtime::Allocation freed = runtime.describe(runtime::DevicePtr(at));
  const std::uint64_t id = take_buffer_id(at);
  const runtime::Status status = free(runtime::DevicePtr(at));
  if (!status.ok()) put_back_buffer_id(at, id);
  if (status.ok() && freed.tag != kNoPool) take_from_pool(freed.tag, freed.size);
  return static_cast<CUresult>(status.code());
}

}  // namespace

CUresult free_now(runtime::Runtime& runtime, CUdeviceptr at) noexcept {
  if (const CUresult waited = wait_for_others(); waited != CUDA_SUCCESS) return waited;
  if (recording()) [[unlikely]]
    record_free(runtime, at, plan::MemoryApi::kPlain, {});
  return give_back(runtime, at, [&](runtime::DevicePtr ptr) { return runtime.free(ptr); });
}

CUresult free_in(runtime::Runtime& runtime, CUdeviceptr at, runtime::StreamHandle stream) noexcept {
  if (recording()) [[unlikely]]
    record_free(runtime, at, plan::MemoryApi::kAsync, stream);
  return give_back(runtime, at, [&](runtime::DevicePtr ptr) { return runtime.free_in(ptr, stream); });
}

}  // namespace tidepool::shim
