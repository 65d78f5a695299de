#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/graph_memory.h"

/// "Memory Management" of the CUDA driver API: plain device memory and pinned host memory.
namespace simgpu {
namespace {

constexpr unsigned kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

}  // namespace

SIMGPU_API_CONTEXT(cuMemGetInfo_v2, (size_t * free, size_t* total), free, total) {
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *free = context.gpu->physical.capacity() - context.gpu->physical.used();
  *total = context.gpu->physical.capacity();
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes), out, bytes) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t base = 0;
  const CUresult result = d.heap.allocate(bytes, &context, &base);
  if (result == CUDA_SUCCESS) *out = base;
  return result;
}

SIMGPU_API_CONTEXT(cuMemAllocPitch_v2,
                   (CUdeviceptr * out, size_t* pitch, size_t width, size_t height, unsigned element), out,
                   pitch, width, height, element) {
  constexpr std::size_t kPitch = 512;
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > context.gpu->physical.capacity() || height > context.gpu->physical.capacity())
    return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t row = (width + kPitch - 1) / kPitch * kPitch;
  if (row > context.gpu->physical.capacity() / height) return CUDA_ERROR_OUT_OF_MEMORY;
  std::uint64_t base = 0;
  const CUresult result = d.heap.allocate(row * height, &context, &base);
  if (result != CUDA_SUCCESS) return result;
  *out = base;
  *pitch = row;
  return CUDA_SUCCESS;
}

/// Waits for the whole device before it frees, as programs have come to rely on.
SIMGPU_API_CONTEXT(cuMemFree_v2, (CUdeviceptr base), base) {
  if (base == 0) return CUDA_SUCCESS;
  if (const PinnedRange* range = d.host.range_at(base); range != nullptr && range->managed) {
    if (range->base != base || range->variable) return CUDA_ERROR_INVALID_VALUE;
    d.scheduler.drain(nullptr);
    d.synchronized();
    return context.sticky != CUDA_SUCCESS ? context.sticky : d.host.free(reinterpret_cast<void*>(base));
  }
  const PlainBlock* block = d.heap.block_at(base);
  if (block == nullptr || block->base != base || block->freeing) return CUDA_ERROR_INVALID_VALUE;
  if (d.ipc_opened.contains(base)) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphAllocation> of_graph = find_graph_allocation(base);
  if (of_graph != nullptr && of_graph->live == nullptr) return CUDA_ERROR_INVALID_VALUE;
  d.scheduler.drain(nullptr);
  d.synchronized();
  if (context.sticky != CUDA_SUCCESS) return context.sticky;
  if (of_graph != nullptr) return free_graph_allocation_now(of_graph);
  block = d.heap.block_at(base);  // host functions ran meanwhile
  if (block == nullptr || block->base != base) return CUDA_ERROR_INVALID_VALUE;
  if (block->pool == nullptr) return d.heap.free(base);
  block->pool->free_now(base);
  d.synchronized();
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t* size, CUdeviceptr address), base,
                   size, address) {
  std::uint64_t low = 0;
  std::uint64_t bytes = 0;
  if (const PlainBlock* block = d.heap.block_at(address)) {
    low = block->base;
    bytes = block->size;
  } else if (const Mapping* mapping = d.space.mapping_at(address);
             mapping != nullptr && !mapping->physical->plain) {
    low = mapping->base;
    bytes = mapping->size;
  } else if (const PinnedRange* range = d.host.range_at(address); range != nullptr && range->managed) {
    low = range->base;
    bytes = range->size;
  } else {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = low;
  if (size != nullptr) *size = bytes;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuMemHostAlloc, (void** out, size_t bytes, unsigned flags), out, bytes, flags) {
  if (out == nullptr || (flags & ~kHostAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  d.ledger.charge(per_mib(context.gpu->config.cost_host_alloc_ns_per_mib, bytes));
  return d.host.allocate(bytes, flags, &context, out);
}

SIMGPU_API_CONTEXT(cuMemAllocHost_v2, (void** out, size_t bytes), out, bytes) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  d.ledger.charge(per_mib(context.gpu->config.cost_host_alloc_ns_per_mib, bytes));
  return d.host.allocate(bytes, CU_MEMHOSTALLOC_PORTABLE, &context, out);
}

SIMGPU_API_CONTEXT(cuMemFreeHost, (void* base), base) {
  const PinnedRange* range = d.host.range_at(reinterpret_cast<std::uint64_t>(base));
  if (range == nullptr || !range->allocated || range->managed) return CUDA_ERROR_INVALID_VALUE;
  d.scheduler.drain(nullptr);
  if (context.sticky != CUDA_SUCCESS) return context.sticky;
  return d.host.free(base);
}

SIMGPU_API_CONTEXT(cuMemHostRegister_v2, (void* base, size_t bytes, unsigned flags), base, bytes, flags) {
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_PERMITTED;
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  d.ledger.charge(per_mib(context.gpu->config.cost_host_alloc_ns_per_mib, bytes));
  return d.host.register_range(base, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP, &context);
}

/// Does not wait: the documentation promises no synchronisation, and a copy that is still queued then finds
/// its memory unpinned.
SIMGPU_API_CONTEXT(cuMemHostUnregister, (void* base), base) {
  const PinnedRange* range = d.host.range_at(reinterpret_cast<std::uint64_t>(base));
  if (range == nullptr) return d.host.unregister(base);
  const std::vector<ordering::Race> users = d.ledger.users_of(range->base, range->size);
  const CUresult result = d.host.unregister(base);
  if (result == CUDA_SUCCESS) d.ledger.report_taken_away(users, "cuMemHostUnregister");
  return result;
}

SIMGPU_API_CONTEXT(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void* host, unsigned flags), out, host,
                   flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (d.host.range_at(reinterpret_cast<std::uint64_t>(host)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuMemHostGetFlags, (unsigned* flags, void* host), flags, host) {
  const PinnedRange* range = d.host.range_at(reinterpret_cast<std::uint64_t>(host));
  if (flags == nullptr || range == nullptr || !range->allocated) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
