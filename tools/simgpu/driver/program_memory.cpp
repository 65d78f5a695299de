#include "tools/simgpu/driver/program_memory.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/scheduler.h"

namespace simgpu {
namespace {

/// No allocator starts two things closer to each other.
constexpr std::uint32_t kSmallestPiece = 256;

/// Freed memory is forgotten once so much of it has come together.
constexpr std::size_t kManyDead = 512;

/// A copy that the runtime spoke of.
struct Announced {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
};
/// The latest one, or those of the latest batch, until they come.
thread_local std::vector<Announced> t_announced;

}  // namespace

/// Not if the program was linked to this library, nor if the runtime opened it: then the first definition
/// that is visible to the whole program is ours, or there is none.
bool ProgramMemory::library_in_front() {
  // Object by object: a library in front may answer a search of all of them as if it were not there.
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  const link_map* object = nullptr;
  if (program == nullptr || ::dlinfo(program, RTLD_DI_LINKMAP, &object) != 0) return false;
  const void* first = nullptr;
  for (; object != nullptr && first == nullptr; object = object->l_next) {
    void* const opened =
        object->l_name[0] == '\0' ? nullptr : ::dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (opened == nullptr) continue;
    first = ::dlsym(opened, "cuMemAlloc_v2");
    ::dlclose(opened);
  }
  ::dlclose(program);
  return first != nullptr && first != reinterpret_cast<const void*>(&::cuMemAlloc_v2);
}

ProgramMemory::ProgramMemory(Scheduler& scheduler)
    : behind_library_(library_in_front()), dead_allowed_(kManyDead), scheduler_(scheduler) {}

void ProgramMemory::allocated(std::uint64_t base, std::uint64_t bytes) {
  by_driver_.add(base, bytes, behind_library_ ? kSmallestPiece : 0, scheduler_.new_call());
}

void ProgramMemory::imported(std::uint64_t base, std::uint64_t bytes) {
  allocated(base, bytes);
  by_driver_.wrote({base, base + bytes}, scheduler_.new_call());
}

void ProgramMemory::freed(std::uint64_t base, std::uint64_t bytes) {
  by_driver_.remove_all({base, base + bytes}, scheduler_.new_call());
  forget_dead(&by_driver_);
}

void ProgramMemory::forget_dead(digest::ExtentMap* map) {
  if (map->dead() < dead_allowed_) return;
  map->forget(scheduler_.oldest_call());
  // What queued work may still ask for is not looked through again at every call.
  dead_allowed_ = std::max(kManyDead, 2 * map->dead());
}

bool ProgramMemory::may_be_live(std::uint64_t address, std::uint64_t call) const {
  if (behind_library_ && !runtime_spoke_) return true;
  // The library in front may not have taken away what the program gave back, and what came by calls of the
  // driver the runtime has not spoken of: it must be gone for both.
  for (const digest::ExtentMap* map : {&by_driver_, &by_runtime_}) {
    if (map->find(address, call).has_value()) return true;
    if (map->find(address, digest::ExtentMap::kNever).has_value()) return true;
  }
  return false;
}

void ProgramMemory::runtime_allocated(std::uint64_t base, std::uint64_t bytes) {
  runtime_spoke_ = true;
  by_runtime_.add(base, bytes, 0, scheduler_.new_call());
}

void ProgramMemory::runtime_freed(std::uint64_t base) {
  by_runtime_.remove(base, scheduler_.new_call());
  forget_dead(&by_runtime_);
}

void ProgramMemory::runtime_writes(std::uint64_t to, std::uint64_t from, bool too) {
  if (!too) t_announced.clear();
  t_announced.push_back({to, from});
}

bool ProgramMemory::claims_write(std::uint64_t to, std::uint64_t from) const {
  if (!behind_library_ || !runtime_spoke_) return true;
  // Copies of the library's own can come in between.
  const auto found = std::find_if(t_announced.begin(), t_announced.end(),
                                  [&](const Announced& a) { return a.to == to && a.from == from; });
  if (found == t_announced.end()) return false;
  t_announced.erase(found);
  return true;
}

}  // namespace simgpu
