#include "tools/simgpu/driver/api.h"

/// "Virtual Memory Management" of the CUDA driver API. None of these calls waits for queued work.
namespace simgpu {
namespace {

bool aligned(std::uint64_t n) {
  return n % kFrameBytes == 0;
}

Physical* find_handle(Driver& d, CUmemGenericAllocationHandle handle) {
  const auto it = d.handles.find(handle);
  return it == d.handles.end() ? nullptr : it->second;
}

/// The memory that a handle names to cuMemMap: a released handle goes on naming it while it is mapped.
Physical* find_for_map(Driver& d, CUmemGenericAllocationHandle handle) {
  Physical* physical = find_handle(d, handle);
  return physical != nullptr ? physical : d.space.mapped_memory(handle);
}

/// Only memory of a device can be created so far; everything else is refused, not imitated.
CUresult check_properties(const Driver& d, const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (d.gpu_at(prop->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  // Other forms of handles need systems that are not simulated.
  const auto types = static_cast<unsigned>(prop->requestedHandleTypes);
  if ((types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult check_location(const Driver& d, const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return d.gpu_at(location.id) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

SIMGPU_API(cuMemAddressReserve,
           (CUdeviceptr * out, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags),
           out, size, alignment, hint, flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t base = 0;
  const CUresult result = d.space.reserve(size, alignment, hint, false, &base);
  if (result == CUDA_SUCCESS) *out = base;
  return result;
}

SIMGPU_API(cuMemAddressFree, (CUdeviceptr base, size_t size), base, size) {
  return d.space.free_reservation(base, size, false);
}

SIMGPU_API(cuMemCreate,
           (CUmemGenericAllocationHandle * out, size_t size, const CUmemAllocationProp* prop,
            unsigned long long flags),
           out, size, prop, flags) {
  if (out == nullptr || flags != 0 || size == 0 || !aligned(size)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_properties(d, prop);
  if (result != CUDA_SUCCESS) return result;
  Physical* physical = nullptr;
  result = d.gpu_at(prop->location.id)->physical.create(size, false, &physical);
  if (result != CUDA_SUCCESS) return result;
  physical->prop = *prop;
  d.ledger.charge(per_mib(d.gpu_at(prop->location.id)->config.vmm_create_ns_per_mib, size));
  *out = physical->id;
  d.handles.emplace(*out, physical);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemRelease, (CUmemGenericAllocationHandle handle), handle) {
  Physical* physical = find_handle(d, handle);
  if (physical == nullptr || physical->handles == 0) return CUDA_ERROR_INVALID_VALUE;
  // Memory lives on while it is mapped; cuMemRetainAllocationHandle then gives the same handle again.
  if (physical->handles == 1) {
    d.handles.erase(handle);
    const DeviceConfig& config = d.gpu_at(physical->memory->ordinal())->config;
    d.ledger.charge(per_mib(config.vmm_release_ns_per_mib, physical->size));
  }
  physical->memory->drop_handle(physical);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemMap,
           (CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
            unsigned long long flags),
           base, size, offset, handle, flags) {
  Physical* physical = find_for_map(d, handle);
  if (physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!aligned(base) || !aligned(size) || !aligned(offset)) return CUDA_ERROR_INVALID_VALUE;
  if (size > physical->size) return CUDA_ERROR_INVALID_VALUE;
  if (size != physical->size || offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = d.space.map(base, physical, false);
  if (result == CUDA_SUCCESS) d.program.allocated(base, size);
  return result;
}

SIMGPU_API(cuMemUnmap, (CUdeviceptr base, size_t size), base, size) {
  if (aligned(base) && aligned(size) && d.space.is_bare(base, size)) return CUDA_SUCCESS;
  const Mapping* mapping = d.space.mapping_at(base);
  if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceConfig& config = d.gpu_at(mapping->physical->memory->ordinal())->config;
  const std::int64_t mappings = d.space.mappings_in(base, size);
  const std::vector<ordering::Race> users = d.ledger.users_of(base, size);
  const CUresult result = d.space.unmap(base, size, false);
  if (result != CUDA_SUCCESS) return result;
  d.program.freed(base, size);
  d.ledger.charge(mappings * config.vmm_unmap_ns_per_mapping + per_mib(config.vmm_unmap_ns_per_mib, size));
  d.ledger.report_taken_away(users, "cuMemUnmap");
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemSetAccess, (CUdeviceptr base, size_t size, const CUmemAccessDesc* desc, size_t count), base,
           size, desc, count) {
  if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult result = check_location(d, desc[i].location);
    if (result != CUDA_SUCCESS) return result;
    const unsigned long long access = desc[i].flags;
    if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE && access != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult result = d.space.set_access(base, size, desc[i].location.id, desc[i].flags, false);
    if (result != CUDA_SUCCESS) return result;
    const DeviceConfig& config = d.gpu_at(desc[i].location.id)->config;
    d.ledger.charge(d.space.mappings_in(base, size) * config.vmm_set_access_ns_per_mapping +
                    per_mib(config.vmm_set_access_ns_per_mib, size));
  }
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemGetAccess, (unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address),
           flags, location, address) {
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = check_location(d, *location);
  if (result != CUDA_SUCCESS) return result;
  const Mapping* mapping = d.space.mapping_at(address);
  if (mapping == nullptr || mapping->physical->plain) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->access[static_cast<std::size_t>(location->id)];
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * out, void* address), out, address) {
  const Mapping* mapping = d.space.mapping_at(reinterpret_cast<std::uint64_t>(address));
  if (out == nullptr || mapping == nullptr || mapping->physical->plain) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->physical->handles;
  *out = mapping->physical->id;
  d.handles.emplace(*out, mapping->physical);
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemGetAllocationGranularity,
           (size_t * out, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags option), out,
           prop, option) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = check_properties(d, prop);
  if (result != CUDA_SUCCESS) return result;
  *out = kFrameBytes;
  return CUDA_SUCCESS;
}

SIMGPU_API(cuMemGetAllocationPropertiesFromHandle,
           (CUmemAllocationProp * out, CUmemGenericAllocationHandle handle), out, handle) {
  const Physical* physical = find_handle(d, handle);
  if (out == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->prop;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
