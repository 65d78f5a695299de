#include <cstring>

#include "tools/simgpu/driver/api.h"
#include "tools/simgpu/driver/foreign.h"

/// Events of the page "IPC" of the CUDA driver API.
namespace simgpu {
namespace {

/// What a CUipcEventHandle holds.
struct IpcEventName {
  static constexpr std::uint32_t kMagic = 0x65637069;

  std::uint32_t magic;
  std::uint32_t index;
  std::uint64_t generation;
  std::int32_t device;
};
static_assert(sizeof(IpcEventName) <= sizeof(CUipcEventHandle));

}  // namespace

SIMGPU_API(cuIpcGetEventHandle, (CUipcEventHandle * out, CUevent handle), out, handle) {
  const auto it = d.events.find(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (it == d.events.end() || it->second->shared == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Event& event = *it->second;
  IpcEventName name{};
  name.magic = IpcEventName::kMagic;
  name.index = event.shared_index;
  name.generation = event.shared_generation;
  name.device = event.context->gpu->ordinal;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &name, sizeof name);
  serve_other_processes(d);
  return CUDA_SUCCESS;
}

/// The opened event behaves like one made with CU_EVENT_INTERPROCESS and without timing.
SIMGPU_API_CONTEXT(cuIpcOpenEventHandle, (CUevent * out, CUipcEventHandle handle), out, handle) {
  IpcEventName name{};
  std::memcpy(&name, &handle, sizeof name);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (name.magic != IpcEventName::kMagic || name.index >= SharedEvents::kMax)
    return CUDA_ERROR_INVALID_HANDLE;
  SharedEvent& shared = (*d.machine)->shared_events.events[name.index];
  if (shared.generation.load(std::memory_order_acquire) != name.generation) return CUDA_ERROR_INVALID_HANDLE;
  if (context.gpu->ordinal != name.device) return CUDA_ERROR_INVALID_HANDLE;
  auto event = std::make_unique<Event>();
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->context = &context;
  event->shared = &shared;
  event->shared_index = name.index;
  event->shared_generation = name.generation;
  event->opened = true;
  *out = reinterpret_cast<CUevent>(event.get());
  d.events.emplace(*out, std::move(event));
  serve_other_processes(d);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
