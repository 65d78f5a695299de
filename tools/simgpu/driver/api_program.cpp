#include <optional>

#include "tools/simgpu/driver/api.h"

namespace simgpu {

/// See simgpu/abi.h.
extern "C" SIMGPU_EXPORT int simgpuProgram(int news, unsigned long long address, unsigned long long source,
                                           std::size_t bytes) {
  count_call(Entry::simgpuProgram);
  Driver* const d = driver();
  std::optional<Ledger::OffTheClock> off;
  if (d != nullptr) off.emplace(d->ledger);
  if (news == kSimgpuWantsToBeTold) return ProgramMemory::library_in_front() ? 1 : 0;
  if (news == kSimgpuWrites || news == kSimgpuWritesToo) {
    ProgramMemory::runtime_writes(address, source, news == kSimgpuWritesToo);
    return 0;
  }
  if (d == nullptr || in_host_function()) return 0;
  const std::scoped_lock lock(d->mutex);
  if (news == kSimgpuAllocated) d->program.runtime_allocated(address, bytes);
  if (news == kSimgpuFreed) d->program.runtime_freed(address);
  return 0;
}

}  // namespace simgpu
