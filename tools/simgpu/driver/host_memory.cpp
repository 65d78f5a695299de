#include "tools/simgpu/driver/host_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <vector>

#include "tools/simgpu/driver/round_up.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

CUresult HostMemory::allocate(std::uint64_t size, unsigned flags, Context* owner, void** out) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > (std::uint64_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory =
      ::mmap(nullptr, round_up(size, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  ranges_.emplace(base,
                  PinnedRange{.base = base, .size = size, .flags = flags, .allocated = true, .owner = owner});
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult HostMemory::free(void* base) {
  const auto it = ranges_.find(reinterpret_cast<std::uint64_t>(base));
  if (it == ranges_.end() || !it->second.allocated) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(base, round_up(it->second.size, kPage));
  ranges_.erase(it);
  return CUDA_SUCCESS;
}

CUresult HostMemory::register_range(void* base, std::uint64_t size, unsigned flags, Context* owner) {
  const auto low = reinterpret_cast<std::uint64_t>(base);
  if (low == 0 || size == 0 || low + size < low) return CUDA_ERROR_INVALID_VALUE;
  const auto next = ranges_.lower_bound(low + size);
  if (next != ranges_.begin() && std::prev(next)->second.base + std::prev(next)->second.size > low) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const std::uint64_t first_page = low / kPage * kPage;
  // msync is the cheapest question whether every page is mapped.
  if (::msync(reinterpret_cast<void*>(first_page), round_up(low + size, kPage) - first_page, MS_ASYNC) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ranges_.emplace(low, PinnedRange{.base = low, .size = size, .flags = flags, .owner = owner});
  return CUDA_SUCCESS;
}

CUresult HostMemory::unregister(void* base) {
  const auto it = ranges_.find(reinterpret_cast<std::uint64_t>(base));
  if (base == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (it == ranges_.end() || it->second.allocated) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  ranges_.erase(it);
  return CUDA_SUCCESS;
}

void HostMemory::free_all_of(const Context* owner) {
  std::vector<PinnedRange> mine;
  for (const auto& [base, range] : ranges_) {
    if (range.owner == owner && !range.variable) mine.push_back(range);
  }
  for (const PinnedRange& range : mine) {
    void* base = reinterpret_cast<void*>(range.base);
    if (range.allocated) {
      free(base);
    } else {
      unregister(base);
    }
  }
}

const PinnedRange* HostMemory::range_at(std::uint64_t address) const {
  const auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  const PinnedRange& range = std::prev(it)->second;
  return address < range.base + range.size ? &range : nullptr;
}

bool HostMemory::covers(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  if (end < address) return false;
  for (const PinnedRange* r = range_at(address); r != nullptr; r = range_at(r->base + r->size)) {
    if (end <= r->base + r->size) return true;
  }
  return false;
}

}  // namespace simgpu
