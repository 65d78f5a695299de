#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph_memory.h"

/// "Stream Ordered Memory Allocator" of the CUDA driver API. Pools shared with other processes:
/// api_pool_share.cpp.
namespace simgpu {
namespace {

/// The program's pool with this handle, or null. The pool of graph memory is not the program's.
Pool* find_pool(Driver& d, CUmemoryPool handle) {
  const auto it = d.pools.find(handle);
  if (it == d.pools.end() || it->second->abandoned()) return nullptr;
  return it->second.get() == it->second->gpu().graph_pool ? nullptr : it->second.get();
}

/// The device that a pool's location names, or null. Pools of host memory are not simulated.
CUresult device_of(Driver& d, const CUmemLocation* location, CUmemAllocationType type, Gpu** out) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  *out = d.gpu_at(location->id);
  return *out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult set_current_pool(Driver& d, Gpu& gpu, CUmemoryPool handle) {
  Pool* pool = find_pool(d, handle);
  if (pool == nullptr || pool->imported() || &pool->gpu() != &gpu) return CUDA_ERROR_INVALID_VALUE;
  gpu.current_pool = pool;
  return CUDA_SUCCESS;
}

CUresult allocate(Driver& d, Context& context, bool per_thread, CUdeviceptr* out, std::size_t bytes,
                  Pool* pool, CUstream handle) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || pool == nullptr || pool->imported()) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return capture_alloc(d, *stream, *pool, bytes, out);
  const CUresult allowed = refuse_in_capture(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  std::uint64_t base = 0;
  const CUresult result = pool->allocate(bytes, &context, stream, &base);
  if (result == CUDA_SUCCESS) *out = base;
  return result;
}

}  // namespace

SIMGPU_API_TWINS(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream), out, bytes,
                 stream) {
  const std::shared_ptr<Stream> known = d.find_stream(&context, stream, per_thread);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return allocate(d, context, per_thread, out, bytes, known->context->gpu->current_pool, stream);
}

SIMGPU_API_TWINS(cuMemAllocFromPoolAsync, _ptsz,
                 (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream), out, bytes, pool,
                 stream) {
  return allocate(d, context, per_thread, out, bytes, find_pool(d, pool), stream);
}

/// Takes plain allocations too: what cuMemAlloc gave may be freed in stream order.
SIMGPU_API_TWINS(cuMemFreeAsync, _ptsz, (CUdeviceptr base, CUstream handle), base, handle) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, handle, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (base == 0) return CUDA_SUCCESS;
  if (stream->capture != nullptr) return capture_free(*stream, base);
  const PlainBlock* block = d.heap.block_at(base);
  if (block == nullptr || block->base != base || block->freeing) return CUDA_ERROR_INVALID_VALUE;
  if (d.ipc_opened.contains(base)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult allowed = refuse_in_capture(*stream);
  if (allowed != CUDA_SUCCESS) return allowed;
  if (const auto of_graph = find_graph_allocation(base)) return free_graph_allocation(d, of_graph, stream);
  if (block->pool != nullptr) {
    block->pool->free(base, stream);
    return CUDA_SUCCESS;
  }
  d.heap.set_freeing(base);
  return enqueue(d, stream, PlainFree{base});
}

SIMGPU_API(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps* props), out, props) {
  if (out == nullptr || props == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Gpu* gpu = nullptr;
  const CUresult found = device_of(d, &props->location, props->allocType, &gpu);
  if (found != CUDA_SUCCESS) return found;
  if ((static_cast<unsigned>(props->handleTypes) &
       ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto pool = std::make_shared<Pool>(d, *gpu, *props);
  *out = pool->handle();
  d.pools.emplace(*out, std::move(pool));
  return CUDA_SUCCESS;
}

/// Memory that is still allocated from it lives on until it is freed.
SIMGPU_API(cuMemPoolDestroy, (CUmemoryPool handle), handle) {
  Pool* pool = find_pool(d, handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Gpu& gpu = pool->gpu();
  if (pool == gpu.default_pool) return CUDA_ERROR_INVALID_VALUE;
  if (gpu.current_pool == pool) gpu.current_pool = gpu.default_pool;
  pool->abandon();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep), handle, keep) {
  Pool* pool = find_pool(d, handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool->trim(keep);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemPoolGetAttribute, (CUmemoryPool handle, CUmemPool_attribute attribute, void* value), handle,
           attribute, value) {
  const Pool* pool = find_pool(d, handle);
  return pool == nullptr || value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool->get(attribute, value);
}

SIMGPU_API(cuMemPoolSetAttribute, (CUmemoryPool handle, CUmemPool_attribute attribute, void* value), handle,
           attribute, value) {
  Pool* pool = find_pool(d, handle);
  return pool == nullptr || value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool->set(attribute, value);
}

SIMGPU_API(cuMemPoolSetAccess, (CUmemoryPool handle, const CUmemAccessDesc* list, size_t count), handle, list,
           count) {
  Pool* pool = find_pool(d, handle);
  if (pool == nullptr || (list == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || d.gpu_at(list[i].location.id) == nullptr) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    const CUresult result = pool->set_access(list[i].location.id, list[i].flags);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemPoolGetAccess, (CUmemAccess_flags * out, CUmemoryPool handle, CUmemLocation* location), out,
           handle, location) {
  const Pool* pool = find_pool(d, handle);
  if (out == nullptr || pool == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || d.gpu_at(location->id) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = pool->access(location->id);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice dev), out, dev) {
  const Gpu* gpu = d.gpu_at(dev);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = gpu->default_pool->handle();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice dev), out, dev) {
  const Gpu* gpu = d.gpu_at(dev);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = gpu->current_pool->handle();
  return CUDA_SUCCESS;
}

SIMGPU_API(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool handle), dev, handle) {
  Gpu* gpu = d.gpu_at(dev);
  return gpu == nullptr ? CUDA_ERROR_INVALID_DEVICE : set_current_pool(d, *gpu, handle);
}

SIMGPU_API(cuMemGetDefaultMemPool, (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type),
           out, location, type) {
  Gpu* gpu = nullptr;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult found = device_of(d, location, type, &gpu);
  if (found == CUDA_SUCCESS) *out = gpu->default_pool->handle();
  return found;
}

SIMGPU_API(cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type), out,
           location, type) {
  Gpu* gpu = nullptr;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult found = device_of(d, location, type, &gpu);
  if (found == CUDA_SUCCESS) *out = gpu->current_pool->handle();
  return found;
}

SIMGPU_API(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool handle),
           location, type, handle) {
  Gpu* gpu = nullptr;
  const CUresult found = device_of(d, location, type, &gpu);
  return found == CUDA_SUCCESS ? set_current_pool(d, *gpu, handle) : found;
}

}  // namespace simgpu
