#include "shim/outside_handles.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

#include "shim/outside_memory.h"

namespace tidepool::shim {
namespace {

/// One piece of physical memory. Counted while anything holds it.
struct Physical {
  Bytes size;
  CUdevice device;
  const char* library;
  std::uint64_t handles;
  std::uint64_t mappings;
};

class Handles {
 public:
  std::mutex lock;

  void add(CUmemGenericAllocationHandle handle, const Physical& physical) noexcept {
    const std::uint64_t memory = ++last_;
    memory_.emplace(memory, physical);
    // A number that is still there is of a handle whose release is on its way: that one goes by its memory.
    names_.insert_or_assign(handle, Name{memory, 1});
    count_outside(physical.device, physical.size, physical.library, true);
  }

  void release(CUmemGenericAllocationHandle handle, std::uint64_t memory) noexcept {
    const auto name = names_.find(handle);
    if (name != names_.end() && name->second.memory == memory && --name->second.count == 0)
      names_.erase(name);
    if (const auto held = memory_.find(memory); held != memory_.end() && held->second.handles > 0) {
      --held->second.handles;
      forget_unheld(held);
    }
  }

  void retain(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept {
    auto mapping = mappings_.upper_bound(at);
    if (mapping == mappings_.begin()) return;
    --mapping;
    const auto held = memory_.find(mapping->second.memory);
    if (held == memory_.end() || at - mapping->first >= held->second.size.count()) return;
    ++held->second.handles;
    ++names_.try_emplace(handle, Name{held->first, 0}).first->second.count;
  }

  void map(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept {
    const auto held = memory_.find(memory_of(handle));
    if (held == memory_.end()) return;
    ++held->second.mappings;
    mappings_.insert_or_assign(at, OutsideMapping{at, ++last_, held->first});
  }

  [[nodiscard]] std::vector<OutsideMapping> within(CUdeviceptr at, Bytes size) const noexcept {
    std::vector<OutsideMapping> found;
    for (auto mapping = mappings_.lower_bound(at);
         mapping != mappings_.end() && mapping->first - at < size.count(); ++mapping) {
      found.push_back(mapping->second);
    }
    return found;
  }

  void unmap(const OutsideMapping& gone) noexcept {
    const auto mapping = mappings_.find(gone.at);
    if (mapping != mappings_.end() && mapping->second.number == gone.number) mappings_.erase(mapping);
    if (const auto held = memory_.find(gone.memory); held != memory_.end() && held->second.mappings > 0) {
      --held->second.mappings;
      forget_unheld(held);
    }
  }

  [[nodiscard]] std::uint64_t memory_of(CUmemGenericAllocationHandle handle) const noexcept {
    const auto name = names_.find(handle);
    return name != names_.end() ? name->second.memory : 0;
  }

  /// In a forked child: all of it is the parent's. The old tables are left as they are.
  void start_again() noexcept {
    ::new (&memory_) Memory;
    ::new (&names_) std::unordered_map<CUmemGenericAllocationHandle, Name>;
    ::new (&mappings_) std::map<CUdeviceptr, OutsideMapping>;
  }

 private:
  using Memory = std::unordered_map<std::uint64_t, Physical>;
  /// What a handle's number means, and how often it was given out.
  struct Name {
    std::uint64_t memory;
    std::uint64_t count;
  };

  void forget_unheld(Memory::iterator held) noexcept {
    const Physical physical = held->second;
    if (physical.handles != 0 || physical.mappings != 0) return;
    memory_.erase(held);
    count_outside(physical.device, physical.size, physical.library, false);
  }

  Memory memory_;
  std::unordered_map<CUmemGenericAllocationHandle, Name> names_;
  std::map<CUdeviceptr, OutsideMapping> mappings_;
  std::uint64_t last_ = 0;  // of memory and of mappings
};

/// Never destroyed: hooks run until the process has ended.
Handles& handles() noexcept {
  alignas(Handles) static std::byte storage[sizeof(Handles)];
  static Handles* const only = ::new (storage) Handles;
  return *only;
}

}  // namespace

void add_handle(CUmemGenericAllocationHandle handle, Bytes size, CUdevice device,
                const char* library) noexcept {
  const std::lock_guard guard(handles().lock);
  handles().add(handle, {size, device, library, 1, 0});
}

std::uint64_t memory_of_handle(CUmemGenericAllocationHandle handle) noexcept {
  const std::lock_guard guard(handles().lock);
  return handles().memory_of(handle);
}

void remove_handle(CUmemGenericAllocationHandle handle, std::uint64_t memory) noexcept {
  if (memory == 0) return;
  const std::lock_guard guard(handles().lock);
  handles().release(handle, memory);
}

void add_mapping(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept {
  const std::lock_guard guard(handles().lock);
  handles().map(at, handle);
}

void retain_mapping(CUdeviceptr at, CUmemGenericAllocationHandle handle) noexcept {
  const std::lock_guard guard(handles().lock);
  handles().retain(at, handle);
}

std::vector<OutsideMapping> mappings_within(CUdeviceptr at, Bytes size) noexcept {
  const std::lock_guard guard(handles().lock);
  return handles().within(at, size);
}

void remove_mappings(const std::vector<OutsideMapping>& mappings) noexcept {
  const std::lock_guard guard(handles().lock);
  for (const OutsideMapping& mapping : mappings) handles().unmap(mapping);
}

void lock_handles_for_fork() noexcept {
  handles().lock.lock();
}
void unlock_handles_after_fork(bool is_child) noexcept {
  if (is_child) handles().start_again();
  handles().lock.unlock();
}

}  // namespace tidepool::shim
