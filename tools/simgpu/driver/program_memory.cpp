#include "tools/simgpu/driver/program_memory.h"

#include <dlfcn.h>

#include <algorithm>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/scheduler.h"

namespace simgpu {
namespace {

/// No allocator starts two things closer to each other.
constexpr std::uint32_t kSmallestPiece = 256;

/// Freed memory is forgotten once so much of it has come together.
constexpr std::size_t kManyDead = 512;

/// The latest copy that the runtime spoke of, until it comes.
struct Announced {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
};
thread_local Announced t_announced;

}  // namespace

/// Not if the program was linked to this library, nor if the runtime opened it: then the first definition
/// that is visible to the whole program is ours, or there is none.
bool ProgramMemory::library_in_front() {
  // Not by RTLD_DEFAULT: this library is linked with -Bsymbolic, so its own definitions come first for it.
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  const void* first = program == nullptr ? nullptr : ::dlsym(program, "cuMemAlloc_v2");
  if (program != nullptr) ::dlclose(program);
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

void ProgramMemory::runtime_allocated(std::uint64_t base, std::uint64_t bytes) {
  runtime_spoke_ = true;
  by_runtime_.add(base, bytes, 0, scheduler_.new_call());
}

void ProgramMemory::runtime_freed(std::uint64_t base) {
  by_runtime_.remove(base, scheduler_.new_call());
  forget_dead(&by_runtime_);
}

void ProgramMemory::runtime_writes(std::uint64_t to, std::uint64_t from) {
  t_announced = {to, from};
}

bool ProgramMemory::claims_write(std::uint64_t to, std::uint64_t from) const {
  if (!behind_library_ || !runtime_spoke_) return true;
  // Copies of the library's own can come in between.
  if (t_announced.to != to || t_announced.from != from) return false;
  t_announced = {};
  return true;
}

}  // namespace simgpu
