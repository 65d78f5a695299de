#include "allocator/epoch.h"

#include <pthread.h>
#include <sched.h>

#include <new>

namespace tidepool::runtime {
namespace {

// initial-exec: no allocation and no call into the dynamic linker on access.
__attribute__((tls_model("initial-exec"))) thread_local EpochRegistry::Slot* t_slot = nullptr;

pthread_key_t g_exit_key;
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;

void give_back(void* slot) {
  t_slot = nullptr;
  static_cast<EpochRegistry::Slot*>(slot)->owned.store(false, std::memory_order_release);
}

}  // namespace

EpochRegistry& EpochRegistry::instance() noexcept {
  alignas(EpochRegistry) static unsigned char storage[sizeof(EpochRegistry)];
  static EpochRegistry* const registry = new (storage) EpochRegistry;
  return *registry;
}

EpochRegistry::Slot* EpochRegistry::mine() noexcept {
  if (t_slot != nullptr) [[likely]]
    return t_slot;
  ::pthread_once(&g_exit_once, [] { ::pthread_key_create(&g_exit_key, &give_back); });
  for (std::uint32_t i = 0; i < kMaxThreads; ++i) {
    bool free = false;
    if (!slots_[i].owned.compare_exchange_strong(free, true, std::memory_order_acq_rel)) continue;
    std::uint32_t seen = high_water_.load(std::memory_order_seq_cst);
    while (seen < i + 1 && !high_water_.compare_exchange_weak(seen, i + 1, std::memory_order_seq_cst)) {
    }
    ::pthread_setspecific(g_exit_key, &slots_[i]);
    t_slot = &slots_[i];
    return t_slot;
  }
  return nullptr;
}

bool EpochRegistry::quiesce(Nanos bound) noexcept {
  const Nanos deadline = monotonic_now() + bound;
  const std::uint32_t count = high_water_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t seen = slots_[i].value.load(std::memory_order_seq_cst);
    if (seen % 2 == 0) continue;
    for (int spins = 0; slots_[i].value.load(std::memory_order_seq_cst) == seen; ++spins) {
      if (spins < 64) continue;
      if (monotonic_now() > deadline) return false;
      ::sched_yield();
    }
  }
  return true;
}

void EpochRegistry::reset_after_fork() noexcept {
  for (Slot& slot : slots_) {
    slot.value.store(0, std::memory_order_relaxed);
    slot.owned.store(&slot == t_slot, std::memory_order_relaxed);
  }
}

}  // namespace tidepool::runtime
