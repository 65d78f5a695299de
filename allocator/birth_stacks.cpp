#include "allocator/birth_stacks.h"

#include <dlfcn.h>

#include <algorithm>
#include <new>
#include <span>

namespace tidepool::runtime {

using plan::Frame;
using plan::kMostFrames;

namespace {

constexpr char kHere = 0;  // tells which module this is

}  // namespace

bool BirthStacks::open() noexcept {
  if (backtrace_ != nullptr) return true;
  // RTLD_LOCAL: its names, those of the exception machinery among them, are visible to nobody else.
  void* const library = ::dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  backtrace_ = reinterpret_cast<int (*)(void**, int)>(::dlsym(library, "unw_backtrace"));
  return backtrace_ != nullptr;
}

std::uint32_t BirthStacks::capture(plan::TraceWriter& writer) noexcept {
  if (backtrace_ == nullptr) return 0;
  void* addresses[kMostFrames];
  const int count = backtrace_(addresses, static_cast<int>(kMostFrames));
  if (count <= 0) return 0;
  std::uint64_t hash = 0x9E37'79B9'7F4A'7C15;
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(addresses[i])) * 0xBF58'476D'1CE4'E5B9;
    hash ^= hash >> 29;
  }
  if (hash == 0) hash = 1;
  for (std::size_t n = 0; n < kProbes; ++n) {
    const Entry& entry = entries_[(hash + n) % kSlots];
    const std::uint64_t seen = entry.hash.load(std::memory_order_acquire);
    if (seen == hash) return entry.id.load(std::memory_order_relaxed);
    if (seen == 0) break;
  }
  return add(hash, addresses, count, writer);
}

std::uint32_t BirthStacks::add(std::uint64_t hash, void* const* addresses, int count,
                               plan::TraceWriter& writer) noexcept {
  // Asked without the lock of ours: the linker has its own, and another thread may come here holding it.
  struct Place {
    Dl_info info;
    bool known;
  };
  Place places[kMostFrames];
  Dl_info own{};
  (void)::dladdr(static_cast<const void*>(&kHere), &own);
  for (int i = 0; i < count; ++i) places[i].known = ::dladdr(addresses[i], &places[i].info) != 0;
  int first = 0;
  while (first < count && places[first].known && places[first].info.dli_fbase == own.dli_fbase) ++first;

  const std::lock_guard guard(lock_);
  for (std::size_t n = 0; n < kProbes; ++n) {
    Entry& entry = entries_[(hash + n) % kSlots];
    const std::uint64_t seen = entry.hash.load(std::memory_order_relaxed);
    if (seen == hash) return entry.id.load(std::memory_order_relaxed);
    if (seen != 0) continue;
    Frame frames[kMostFrames];
    std::size_t kept = 0;
    for (int i = first; i < count; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(addresses[i]);
      const Dl_info& info = places[i].info;
      const std::uint32_t module = places[i].known ? module_of(info.dli_fbase, info.dli_fname, writer) : 0;
      frames[kept++] = {module,
                        module == 0 ? address : address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)};
    }
    const std::uint32_t id = stack_count_ + 1;
    if (!writer.write(plan::StackRecord{id, std::span<const Frame>(frames, kept)})) return 0;
    stack_count_ = id;
    entry.id.store(id, std::memory_order_relaxed);
    entry.hash.store(hash, std::memory_order_release);
    return id;
  }
  return 0;
}

std::uint32_t BirthStacks::module_of(const void* base, const char* path, plan::TraceWriter& writer) noexcept {
  const void* const* const end = modules_ + module_count_;
  const void* const* const known = std::find(static_cast<const void* const*>(modules_), end, base);
  if (known != end) return static_cast<std::uint32_t>(known - modules_) + 1;
  if (module_count_ == kMostModules || path == nullptr) return 0;
  if (!writer.write(plan::ModuleRecord{module_count_ + 1, path})) return 0;
  modules_[module_count_++] = base;
  return module_count_;
}

void BirthStacks::reset_after_fork() noexcept {
  new (&lock_) std::mutex;
  for (Entry& entry : entries_) entry.hash.store(0, std::memory_order_relaxed);
  module_count_ = stack_count_ = 0;
}

}  // namespace tidepool::runtime
