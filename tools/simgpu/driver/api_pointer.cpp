#include "tools/simgpu/driver/api.h"

/// "Unified Addressing" of the CUDA driver API: what an address is.
namespace simgpu {
namespace {

/// What the pointer queries need to know about an address.
struct Known {
  bool device = false;
  bool host = false;
  bool vmm = false;
  bool managed = false;
  std::uint64_t base = 0, size = 0, id = 0;
  unsigned access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Context* owner = nullptr;
  int ordinal = 0;
  Pool* pool = nullptr;
  unsigned long long handle_types = CU_MEM_HANDLE_TYPE_NONE;
};

Known look_up(Driver& d, const Context& context, std::uint64_t address) {
  Known k;
  if (const PlainBlock* block = d.heap.block_at(address)) {
    k.device = true;
    k.base = block->base;
    k.size = block->size;
    k.id = block->id;
    k.owner = block->owner;
    k.ordinal = d.space.mapping_at(address)->physical->memory->ordinal();
    k.pool = block->pool;
    if (k.pool != nullptr) k.handle_types = k.pool->props().handleTypes;
  } else if (const Mapping* m = d.space.mapping_at(address); m != nullptr && !m->physical->plain) {
    k.device = k.vmm = true;
    k.base = m->base;
    k.size = m->size;
    k.id = m->physical->id;
    k.handle_types = m->physical->prop.requestedHandleTypes;
    k.ordinal = m->physical->memory->ordinal();
    k.access = m->access[static_cast<std::size_t>(context.gpu->ordinal)];
  } else if (const PinnedRange* range = d.host.range_at(address)) {
    k.host = true;
    k.managed = range->managed;
    k.base = k.id = range->base;
    k.size = range->size;
    k.owner = range->owner;
    k.ordinal = range->owner->gpu->ordinal;
  }
  return k;
}

template <class T>
CUresult put(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

/// One attribute. For an address that is not CUDA's: CUDA_ERROR_INVALID_VALUE.
CUresult attribute_of(Driver& d, const Context& context, void* out, CUpointer_attribute attribute,
                      CUdeviceptr address) {
  const Known k = look_up(d, context, address);
  const bool known = k.device || k.host;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      // A reservation is told whole, also where something is mapped in it: the mapping is what
      // cuMemGetAddressRange tells.
      if (const Reservation* r = d.space.reservation_at(address); r != nullptr && (k.vmm || !known)) {
        return attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? put<std::size_t>(out, r->size)
                                                            : put<CUdeviceptr>(out, r->base);
      }
      break;
    default:
      break;
  }
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, k.owner == nullptr ? nullptr : handle_of(k.owner));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(out, k.device || k.managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put<CUdeviceptr>(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!k.host) return CUDA_ERROR_INVALID_VALUE;
      return put(out, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(out, k.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put<unsigned>(out, k.managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(out, k.ordinal);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<unsigned>(out, k.device && !k.vmm && k.pool == nullptr ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put<CUdeviceptr>(out, k.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<std::size_t>(out, k.size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put<CUdeviceptr>(out, k.base);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put<std::size_t>(out, k.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<int>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(out, k.handle_types);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(out, k.access);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      // Graphs have their memory from no pool that the program could name.
      return put<CUmemoryPool>(
          out, k.pool == nullptr || k.pool == k.pool->gpu().graph_pool ? nullptr : k.pool->handle());
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// What cuPointerGetAttributes writes for an address that is not CUDA's.
void put_default(void* out, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put<std::uint64_t>(out, 0);
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(out, -2);
      return;
    default:
      put<unsigned>(out, 0);
      return;
  }
}

}  // namespace

SIMGPU_API_CONTEXT(cuPointerGetAttribute, (void* out, CUpointer_attribute attribute, CUdeviceptr address),
                   out, attribute, address) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(d, context, out, attribute, address);
}

SIMGPU_API_CONTEXT(cuPointerGetAttributes,
                   (unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr address), count,
                   attributes, out, address) {
  if (attributes == nullptr || out == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (out[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (attribute_of(d, context, out[i], attributes[i], address) != CUDA_SUCCESS)
      put_default(out[i], attributes[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace simgpu
