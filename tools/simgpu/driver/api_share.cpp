#include <unistd.h>

#include <cstring>

#include "tools/simgpu/driver/api.h"

/// Memory that processes share: descriptors of "Virtual Memory Management" and handles of "IPC" of the CUDA
/// driver API.
namespace simgpu {
namespace {

/// What a CUipcMemHandle holds: a plain allocation of another process, by name. It keeps nothing alive.
struct IpcName {
  static constexpr std::uint32_t kMagic = 0x67706d69;

  std::uint32_t magic;
  std::int32_t device;
  std::int32_t pid;  ///< of the process that the allocation belongs to
  PhysicalMemory::Name memory;
  std::uint64_t offset;  ///< of the allocation in that memory
  std::uint64_t size;
};
static_assert(sizeof(IpcName) <= sizeof(CUipcMemHandle) && std::is_trivially_copyable_v<IpcName>);

Physical* import_anywhere(Driver& d, int descriptor) {
  for (const auto& gpu : d.gpus) {
    if (Physical* physical = gpu->physical.import_descriptor(descriptor)) return physical;
  }
  return nullptr;
}

}  // namespace

SIMGPU_API(cuMemExportToShareableHandle,
           (void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
            unsigned long long flags),
           out, handle, type, flags) {
  const auto it = d.handles.find(handle);
  if (out == nullptr || flags != 0 || it == d.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Physical* physical = it->second;
  // The type must have been asked for when the memory was created.
  if ((physical->prop.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = physical->memory->export_descriptor(physical);
  if (descriptor < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

/// The descriptor stays the caller's, and open.
SIMGPU_API(cuMemImportFromShareableHandle,
           (CUmemGenericAllocationHandle * out, void* handle, CUmemAllocationHandleType type), out, handle,
           type) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Physical* physical = import_anywhere(d, static_cast<int>(reinterpret_cast<std::intptr_t>(handle)));
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  physical->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {physical->memory->ordinal()}};
  physical->prop.requestedHandleTypes = type;
  *out = physical->id;
  d.handles.emplace(*out, physical);
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), out, address) {
  const PlainBlock* block = d.heap.block_at(address);
  if (out == nullptr || block == nullptr || block->imported || block->pool != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Physical* physical = d.space.mapping_at(block->segment)->physical;
  IpcName name{};
  name.magic = IpcName::kMagic;
  name.device = physical->memory->ordinal();
  name.pid = ::getpid();
  name.offset = block->base - block->segment;
  name.size = block->size;
  const CUresult named = physical->memory->name(physical, &name.memory);
  if (named != CUDA_SUCCESS) return named;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &name, sizeof name);
  return CUDA_SUCCESS;
}

/// A handle that is opened again gives the same address and is closed as often as it was opened.
SIMGPU_API_CONTEXT(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags), out,
                   handle, flags) {
  IpcName name{};
  std::memcpy(&name, &handle, sizeof name);
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  if (name.magic != IpcName::kMagic || d.gpu_at(name.device) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (name.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  for (auto& [address, opened] : d.ipc_opened) {
    if (opened.context != &context || std::memcmp(&opened.handle, &handle, sizeof handle) != 0) continue;
    ++opened.count;
    *out = address;
    return CUDA_SUCCESS;
  }
  Gpu& gpu = *d.gpu_at(name.device);
  Physical* physical = gpu.physical.find(name.memory);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t base = 0;
  const CUresult result = d.heap.import(physical, name.offset, name.size, &context, &base);
  if (result != CUDA_SUCCESS) return result;
  if (&gpu != context.gpu) context.peers |= std::uint32_t{1} << static_cast<unsigned>(gpu.ordinal);
  d.ipc_opened.emplace(base, IpcOpened{handle, &context, 1});
  *out = base;
  return CUDA_SUCCESS;
}

SIMGPU_API_CONTEXT(cuIpcCloseMemHandle, (CUdeviceptr address), address) {
  auto it = d.ipc_opened.find(address);
  if (it == d.ipc_opened.end()) return CUDA_ERROR_INVALID_VALUE;
  if (it->second.count == 1) {
    d.scheduler.drain(nullptr);
    // Draining can run host functions, without the device lock: it may be open again, or closed.
    it = d.ipc_opened.find(address);
    if (it == d.ipc_opened.end()) return CUDA_ERROR_INVALID_VALUE;
  }
  if (--it->second.count != 0) return context.sticky;
  d.ipc_opened.erase(it);
  d.heap.free(address);
  return context.sticky;
}

}  // namespace simgpu
