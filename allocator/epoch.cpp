#include "allocator/epoch.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <mutex>
#include <new>

namespace tidepool::runtime {
namespace {

pthread_key_t g_exit_key;
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;

bool g_have_key = false;

struct ExitHooks {
  struct Hook {
    void (*call)(void*) = nullptr;
    void* context = nullptr;
  };
  std::mutex lock;
  std::array<Hook, 64> all;  // one for each device that can be managed
};
ExitHooks& exit_hooks() noexcept {
  alignas(ExitHooks) static unsigned char storage[sizeof(ExitHooks)];
  static ExitHooks* const hooks = new (storage) ExitHooks;
  return *hooks;
}

}  // namespace

constinit thread_local EpochRegistry::Slot* EpochRegistry::t_slot __attribute__((tls_model("initial-exec"))) =
    nullptr;

void EpochRegistry::give_back(void* slot) noexcept {
  {
    ExitHooks& hooks = exit_hooks();
    const std::lock_guard guard(hooks.lock);
    for (const ExitHooks::Hook& hook : hooks.all) {
      if (hook.call != nullptr) hook.call(hook.context);
    }
  }
  t_slot = nullptr;
  static_cast<Slot*>(slot)->owned.store(false, std::memory_order_release);
}

EpochRegistry& EpochRegistry::instance() noexcept {
  alignas(EpochRegistry) static unsigned char storage[sizeof(EpochRegistry)];
  static EpochRegistry* const registry = new (storage) EpochRegistry;
  return *registry;
}

EpochRegistry::Slot* EpochRegistry::take_slot() noexcept {
  ::pthread_once(&g_exit_once, [] { g_have_key = ::pthread_key_create(&g_exit_key, &give_back) == 0; });
  for (std::uint32_t i = 0; i < kMaxThreads; ++i) {
    bool free = false;
    if (!slots_[i].owned.compare_exchange_strong(free, true, std::memory_order_acq_rel)) continue;
    std::uint32_t seen = high_water_.load(std::memory_order_seq_cst);
    while (seen < i + 1 && !high_water_.compare_exchange_weak(seen, i + 1, std::memory_order_seq_cst)) {
    }
    // Without a key (a process has 1,024) slots are not given back, and threads beyond the last go slowly.
    if (g_have_key) ::pthread_setspecific(g_exit_key, &slots_[i]);
    t_slot = &slots_[i];
    return t_slot;
  }
  return nullptr;
}

std::uint64_t EpochRegistry::quiesce(Nanos bound) noexcept {
  const Nanos deadline = monotonic_now() + bound;
  const std::uint32_t count = high_water_.load(std::memory_order_seq_cst);
  std::uint64_t stuck = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Slot& slot = slots_[i];
    const std::uint64_t seen = slot.value.load(std::memory_order_seq_cst);
    if (seen % 2 == 0) continue;
    for (int spins = 0; slot.value.load(std::memory_order_seq_cst) == seen; ++spins) {
      if (spins < 64) continue;
      if (monotonic_now() > deadline) {
        // The owner writes the bits before it goes odd, so they belong to this value if it still stands.
        const std::uint64_t touching = slot.touching.load(std::memory_order_relaxed);
        if (slot.value.load(std::memory_order_seq_cst) == seen) stuck |= touching;
        break;
      }
      ::sched_yield();
    }
  }
  return stuck;
}

bool EpochRegistry::add_exit_hook(void (*hook)(void*), void* context) noexcept {
  ExitHooks& hooks = exit_hooks();
  const std::lock_guard guard(hooks.lock);
  for (ExitHooks::Hook& place : hooks.all) {
    if (place.call != nullptr) continue;
    place = {hook, context};
    return true;
  }
  return false;
}

void EpochRegistry::remove_exit_hook(void* context) noexcept {
  ExitHooks& hooks = exit_hooks();
  const std::lock_guard guard(hooks.lock);
  for (ExitHooks::Hook& place : hooks.all) {
    if (place.context == context) place = {};
  }
}

void EpochRegistry::reset_after_fork() noexcept {
  for (Slot& slot : slots_) {
    slot.value.store(0, std::memory_order_relaxed);
    slot.owned.store(&slot == t_slot, std::memory_order_relaxed);
  }
}

}  // namespace tidepool::runtime
