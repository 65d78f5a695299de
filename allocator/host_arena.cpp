#include "allocator/host_arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace tidepool::runtime {

HostArena::HostArena(Device& device, Bytes budget, Bytes granule, Bytes chunk) noexcept
    : device_(device), granule_(granule), budget_(granule * (budget / granule)), chunk_(chunk) {}

HostArena::~HostArena() {
  for (const Chunk& chunk : chunks_) {
    // A failure here leaves the pages pinned until the process ends; there is nobody left to tell.
    (void)device_.unregister_host(chunk.base);
    ::munmap(chunk.base, chunk.size.count());
  }
}

void HostArena::abandon() noexcept {
  const std::lock_guard guard(lock_);
  for (const Chunk& chunk : chunks_) ::munmap(chunk.base, chunk.size.count());
  chunks_.clear();
}

Bytes HostArena::used() const noexcept {
  const std::lock_guard guard(lock_);
  return used_;
}

Bytes HostArena::pinned() const noexcept {
  const std::lock_guard guard(lock_);
  return pinned_;
}

Status HostArena::add_chunk() noexcept {
  const Bytes size = std::min(chunk_, budget_ - pinned_);
  if (size == Bytes()) return kOutOfMemory;
  void* base = ::mmap(nullptr, size.count(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return kOutOfMemory;
  (void)::madvise(base, size.count(), MADV_DONTFORK);
  if (const Status status = device_.register_host(base, size); !status.ok()) {
    ::munmap(base, size.count());
    return status;
  }
  chunks_.push_back({static_cast<std::byte*>(base), size, std::vector<bool>(size / granule_)});
  pinned_ += size;
  return kOk;
}

Status HostArena::grow_to(Bytes wanted) noexcept {
  const std::lock_guard guard(lock_);
  const Bytes target = std::min(wanted, budget_);
  while (pinned_ < target) {
    if (const Status status = add_chunk(); !status.ok()) return status;
  }
  return kOk;
}

DeviceResult<HostSlot> HostArena::allocate(Bytes size) noexcept {
  const std::lock_guard guard(lock_);
  if (used_ + size > budget_) return Err{kOutOfMemory};
  while (pinned_ < used_ + size) {
    Status status = add_chunk();
    if (!status.ok()) status = add_chunk();  // one refusal is survived
    if (!status.ok()) return Err{status};
  }
  HostSlot slot;
  Bytes missing = size;
  for (Chunk& chunk : chunks_) {
    for (std::size_t i = 0; i < chunk.taken.size() && missing > Bytes(); ++i) {
      if (chunk.taken[i]) continue;
      chunk.taken[i] = true;
      std::byte* at = chunk.base + i * granule_.count();
      if (!slot.empty() && slot.back().base + slot.back().size.count() == at) {
        slot.back().size += granule_;
      } else {
        slot.push_back({at, granule_});
      }
      missing -= granule_;
    }
  }
  used_ += size;
  return slot;
}

void HostArena::release(const HostSlot& slot) noexcept {
  const std::lock_guard guard(lock_);
  for (const HostRun& run : slot) {
    for (Chunk& chunk : chunks_) {
      if (run.base < chunk.base || run.base >= chunk.base + chunk.size.count()) continue;
      const std::size_t first = static_cast<std::size_t>(run.base - chunk.base) / granule_.count();
      std::fill_n(chunk.taken.begin() + static_cast<std::ptrdiff_t>(first), run.size / granule_, false);
    }
    used_ -= run.size;
  }
}

}  // namespace tidepool::runtime
