#include "allocator/kernel_table.h"

#include <algorithm>
#include <new>
#include <string_view>

namespace tidepool::runtime {
namespace {

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash;
}

}  // namespace

// Holds the lock when it gives a new kernel: publish() lets go of it.
KernelTable::Kernel KernelTable::add(const void* function, AskName* ask, std::span<char> name) noexcept {
  name[0] = '\0';
  ask(function, name);
  const std::uint64_t hash = hash_of(name.data());
  lock_.lock();
  const auto end = names_.begin() + count_;
  const auto known = std::find(names_.begin(), end, hash);
  if (known != end || count_ == kSlots) {
    const std::uint32_t id = known == end ? 0 : static_cast<std::uint32_t>(known - names_.begin()) + 1;
    store(function, id);
    lock_.unlock();
    return {id, false};
  }
  names_[count_++] = hash;
  unpublished_ = function;
  return {count_, true};
}

void KernelTable::publish() noexcept {
  store(unpublished_, count_);
  lock_.unlock();
}

// An entry of an older generation serves again. If there is no place, the kernel is looked up by its name
// each time.
void KernelTable::store(const void* function, std::uint32_t id) noexcept {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  for (std::size_t i = slot_of(function), n = 0; n < kProbes; ++i, ++n) {
    Entry& entry = entries_[i % kSlots];
    const void* const seen = entry.function.load(std::memory_order_relaxed);
    if (seen != nullptr && seen != function) continue;
    entry.value.store(generation << 32 | id, std::memory_order_release);
    entry.function.store(function, std::memory_order_release);
    return;
  }
}

void KernelTable::reset_after_fork() noexcept {
  new (&lock_) std::mutex;
  forget();
  count_ = 0;
}

}  // namespace tidepool::runtime
