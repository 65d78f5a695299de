// Memory pools: allocation and free in the order of streams, and what pools are said to hold.

#include <cstring>

#include "shim/capture.h"
#include "shim/entry.h"
#include "shim/free_memory.h"
#include "shim/managed.h"
#include "shim/ownership.h"
#include "shim/pools.h"
#include "shim/record.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

// A pool's memory outlives contexts of the program's own, and what is managed in such a context does not.
const ManagedDevice* with_pools(const ManagedDevice* device) noexcept {
  return device != nullptr && device->is_primary ? device : nullptr;
}

// The device of the stream, if work in it can be followed and does not go into a graph: memory that a graph
// allocates is the graph's.
const ManagedDevice* home_for(CUstream stream, bool per_thread) noexcept {
  return is_capturing(stream, per_thread) ? nullptr : with_pools(manage_home_of(stream));
}

CUresult allocate(const ManagedDevice& device, CUdeviceptr* out, std::size_t size, PoolTag pool,
                  const ManagedDevice& home, CUstream stream, bool per_thread, plan::MemoryApi api) noexcept {
  runtime::Runtime& runtime = *device.runtime;
  if (!take_place_in_pool(pool, Bytes(size))) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto at = runtime.allocate_in(Bytes(size), stream_for(device, home, stream, per_thread), pool);
  if (!at.ok()) {
    take_from_pool(pool, Bytes(size));
    return static_cast<CUresult>(at.error().code());
  }
  note_allocated_in_pool(pool);
  *out = at->address();
  if (recording()) [[unlikely]]
    record_allocation(runtime, *out, size, api, recorded_stream(stream, per_thread));
  return CUDA_SUCCESS;
}

constexpr auto kAllocAsync = [](const auto& call, CUdeviceptr* out, std::size_t size,
                                CUstream stream) noexcept {
  const ManagedDevice* const home = out != nullptr && size != 0 ? home_for(stream, call.kPerThread) : nullptr;
  const PoolTag pool = home != nullptr ? current_pool(home->ordinal) : kNoPool;
  if (pool == kNoPool) return call(out, size, stream);
  return allocate(*home, out, size, pool, *home, stream, call.kPerThread, plan::MemoryApi::kAsync);
};

constexpr auto kAllocFromPool = [](const auto& call, CUdeviceptr* out, std::size_t size, CUmemoryPool handle,
                                   CUstream stream) noexcept {
  const ManagedDevice* const home = out != nullptr && size != 0 ? home_for(stream, call.kPerThread) : nullptr;
  // The memory is where the pool is; where that device has no memory of ours yet, it stays the driver's.
  const ManagedDevice* const device =
      home != nullptr ? with_pools(managed_on(device_of_pool(handle))) : nullptr;
  const PoolTag pool = device != nullptr ? managed_pool(handle, device->ordinal) : kNoPool;
  if (pool == kNoPool) return call(out, size, handle, stream);
  return allocate(*device, out, size, pool, *home, stream, call.kPerThread, plan::MemoryApi::kPool);
};

// Memory of cuMemAlloc can be freed so as well. Freeing into a graph what is not the graph's is the driver's
// to refuse; and where the stream cannot be followed, waiting is later than needed, never too early.
constexpr auto kFreeAsync = [](const auto& call, CUdeviceptr at, CUstream stream) noexcept {
  const ManagedDevice* const device = owner_device(at);
  if (device == nullptr || is_capturing(stream, call.kPerThread)) return call(at, stream);
  const ManagedDevice* const home = home_of(stream);
  if (home == nullptr) return free_now(*device->runtime, at);
  return free_in(*device->runtime, at, stream_for(*device, *home, stream, call.kPerThread));
};

constexpr auto kPoolCreate = [](const auto& call, CUmemoryPool* out,
                                const CUmemPoolProps* properties) noexcept {
  const CUresult result = call(out, properties);
  if (result == CUDA_SUCCESS) note_pool(*out, *properties);
  return result;
};

// Before the call: afterwards the handle may come back for another pool.
constexpr auto kPoolDestroy = [](const auto& call, CUmemoryPool pool) noexcept {
  const PoolTag tag = forget_pool(pool);
  const CUresult result = call(pool);
  if (result != CUDA_SUCCESS) put_back_pool(tag, pool);
  return result;
};

constexpr auto kPoolGet = [](const auto& call, CUmemoryPool pool, CUmemPool_attribute attribute,
                             void* out) noexcept {
  const CUresult result = call(pool, attribute, out);
  if (result != CUDA_SUCCESS || out == nullptr) return result;
  const PoolBytes ours = pool_bytes(pool);
  Bytes more;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) more = ours.used;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) more = ours.used_high;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) more = ours.reserved;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) more = ours.reserved_high;
  if (more == Bytes()) return result;  // other attributes are smaller than eight bytes
  cuuint64_t value = 0;
  std::memcpy(&value, out, sizeof value);
  value += more.count();
  std::memcpy(out, &value, sizeof value);
  return result;
};

constexpr auto kPoolSet = [](const auto& call, CUmemoryPool pool, CUmemPool_attribute attribute,
                             void* value) noexcept {
  const CUresult result = call(pool, attribute, value);
  if (result != CUDA_SUCCESS) return result;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) reset_used_high(pool);
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) reset_reserved_high(pool);
  if (attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
    int is_allowed = 1;
    std::memcpy(&is_allowed, value, sizeof is_allowed);
    if (is_allowed == 0) runtime::reuse_must_not_wait.store(true, std::memory_order_release);
  }
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    cuuint64_t threshold = 0;
    std::memcpy(&threshold, value, sizeof threshold);
    note_release_threshold(pool, Bytes(threshold));
  }
  return result;
};

// Memory of ours that nobody uses stays within the budget and serves every pool: there is nothing to give
// back.
constexpr auto kPoolTrim = [](const auto& call, CUmemoryPool pool, std::size_t least) noexcept {
  const CUresult result = call(pool, least);
  if (result == CUDA_SUCCESS) trim_pool(pool, Bytes(least));
  return result;
};

constexpr auto kDeviceSetPool = [](const auto& call, CUdevice device, CUmemoryPool pool) noexcept {
  const CUresult result = call(device, pool);
  forget_current_pool(device);
  return result;
};

constexpr auto kSetPool = [](const auto& call, CUmemLocation* location, CUmemAllocationType kind,
                             CUmemoryPool pool) noexcept {
  const CUresult result = call(location, kind, pool);
  if (location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE) forget_current_pool(location->id);
  return result;
};

}  // namespace

TP_HANDLE_PTSZ(cuMemAllocAsync, kByOwner<kAllocAsync>)
TP_HANDLE_PTSZ(cuMemAllocFromPoolAsync, kByOwner<kAllocFromPool>)
TP_HANDLE_PTSZ(cuMemFreeAsync, kFreeByOwner<kFreeAsync>)
TP_HANDLE(cuMemPoolCreate, kPoolCreate)
TP_HANDLE(cuMemPoolDestroy, kPoolDestroy)
TP_HANDLE(cuMemPoolGetAttribute, kPoolGet)
TP_HANDLE(cuMemPoolSetAttribute, kPoolSet)
TP_HANDLE(cuMemPoolTrimTo, kPoolTrim)
TP_HANDLE(cuDeviceSetMemPool, kDeviceSetPool)
TP_HANDLE(cuMemSetMemPool, kSetPool)

}  // namespace tidepool::shim
