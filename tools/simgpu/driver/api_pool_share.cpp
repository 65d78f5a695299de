#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tools/simgpu/driver/api.h"

/// Pools of the "Stream Ordered Memory Allocator" that processes share: a descriptor names the pool, and data
/// of 64 bytes each of its allocations. An imported pool gives out no memory of its own.
namespace simgpu {
namespace {

struct PoolName {
  static constexpr std::uint32_t kMagic = 0x6c6f6f70;

  std::uint32_t magic;
  std::int32_t device;
  std::int32_t pid;
  std::int32_t reserved;
  std::uint64_t pool;  ///< its handle in the process that made it
};

struct PieceName {
  static constexpr std::uint32_t kMagic = 0x65636970;

  std::uint32_t magic;
  PoolName pool;
  PhysicalMemory::Name memory;
  std::uint64_t offset, size;
};
static_assert(sizeof(PieceName) <= sizeof(CUmemPoolPtrExportData));

PoolName name_of(Pool& pool) {
  return {PoolName::kMagic, pool.gpu().ordinal, ::getpid(), 0,
          reinterpret_cast<std::uint64_t>(pool.handle())};
}

bool same(const PoolName& a, const PoolName& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

SIMGPU_API(cuMemPoolExportToShareableHandle,
           (void* out, CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long flags), out,
           handle, type, flags) {
  const auto it = d.pools.find(handle);
  if (out == nullptr || flags != 0 || it == d.pools.end()) return CUDA_ERROR_INVALID_VALUE;
  Pool& pool = *it->second;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (pool.props().handleTypes != type || pool.imported()) return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = ::memfd_create("simgpu-pool", MFD_CLOEXEC);
  const PoolName name = name_of(pool);
  if (descriptor < 0 || ::pwrite(descriptor, &name, sizeof name, 0) != sizeof name) {
    if (descriptor >= 0) ::close(descriptor);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool.share();
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemPoolImportFromShareableHandle,
           (CUmemoryPool * out, void* handle, CUmemAllocationHandleType type, unsigned long long flags), out,
           handle, type, flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  PoolName name{};
  const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
  if (::pread(descriptor, &name, sizeof name, 0) != sizeof name || name.magic != PoolName::kMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Gpu* gpu = d.gpu_at(name.device);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = type;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {name.device}};
  auto pool = std::make_shared<Pool>(d, *gpu, props);
  Pool::Origin origin{};
  static_assert(sizeof origin == sizeof name);
  std::memcpy(&origin, &name, sizeof name);
  pool->import(origin);
  *out = pool->handle();
  d.pools.emplace(*out, std::move(pool));
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemPoolExportPointer, (CUmemPoolPtrExportData * out, CUdeviceptr address), out, address) {
  const PlainBlock* block = d.heap.block_at(address);
  if (out == nullptr || block == nullptr || block->pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!block->pool->shared()) return CUDA_ERROR_INVALID_VALUE;
  const Mapping& mapping = *d.space.mapping_at(block->base);
  PieceName name{};
  name.magic = PieceName::kMagic;
  name.pool = name_of(*block->pool);
  name.offset = block->base - mapping.base;
  name.size = block->size;
  const CUresult named = mapping.physical->memory->name(mapping.physical, &name.memory);
  if (named != CUDA_SUCCESS) return named;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &name, sizeof name);
  return CUDA_SUCCESS;
}

/// The memory is freed here before it is freed where it came from, which the program sees to.
SIMGPU_API_CONTEXT(cuMemPoolImportPointer,
                   (CUdeviceptr * out, CUmemoryPool handle, CUmemPoolPtrExportData* data), out, handle,
                   data) {
  const auto it = d.pools.find(handle);
  if (out == nullptr || data == nullptr || it == d.pools.end()) return CUDA_ERROR_INVALID_VALUE;
  const Pool& pool = *it->second;
  PieceName name{};
  std::memcpy(&name, data, sizeof name);
  if (!pool.imported() || name.magic != PieceName::kMagic) return CUDA_ERROR_INVALID_VALUE;
  PoolName origin{};
  std::memcpy(&origin, &*pool.origin(), sizeof origin);
  if (!same(name.pool, origin)) return CUDA_ERROR_INVALID_VALUE;
  Physical* physical = pool.gpu().physical.find(name.memory);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t base = 0;
  const CUresult result = d.heap.import(physical, name.offset, name.size, &context, &base);
  if (result == CUDA_SUCCESS) *out = base;
  return result;
}

}  // namespace simgpu
