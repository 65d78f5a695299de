#include "allocator/epoch.h"

#include <pthread.h>

#include <array>
#include <new>

#include "allocator/backoff.h"

namespace tidepool::runtime {
namespace {

pthread_key_t g_exit_key;
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;

bool g_have_key = false;

// What to call on threads that end. No lock is held during a call: it may wait for the driver, and another
// thread that ends must not wait with it. Plain statics, so that a child of a fork finds them whatever the
// other threads of its parent were at.
struct ExitHook {
  using Call = void (*)(void*);
  std::atomic<Call> call{nullptr};
  std::atomic<void*> context{nullptr};    // whose place it is; null: nobody's
  std::atomic<std::uint32_t> callers{0};  // threads that may be in a call, or are about to look
};
constinit std::array<ExitHook, 64> g_exit_hooks{};  // one for each device that can be managed

}  // namespace

constinit thread_local EpochRegistry::Slot* EpochRegistry::t_slot __attribute__((tls_model("initial-exec"))) =
    nullptr;

void EpochRegistry::give_back(void* slot) noexcept {
  for (ExitHook& place : g_exit_hooks) {
    if (place.call.load(std::memory_order_relaxed) == nullptr) continue;
    // Counted first, looked at second; remove_exit_hook() does it the other way round.
    place.callers.fetch_add(1, std::memory_order_seq_cst);
    if (const ExitHook::Call call = place.call.load(std::memory_order_seq_cst); call != nullptr) {
      call(place.context.load(std::memory_order_acquire));
    }
    place.callers.fetch_sub(1, std::memory_order_release);
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
    Backoff backoff;
    for (int spins = 0; slot.value.load(std::memory_order_seq_cst) == seen; ++spins) {
      if (spins < 64) continue;
      if (monotonic_now() > deadline) {
        // The owner writes the bits before it goes odd, so they belong to this value if it still stands.
        const std::uint64_t touching = slot.touching.load(std::memory_order_relaxed);
        if (slot.value.load(std::memory_order_seq_cst) == seen) stuck |= touching;
        break;
      }
      backoff.pause();
    }
  }
  return stuck;
}

bool EpochRegistry::add_exit_hook(void (*hook)(void*), void* context) noexcept {
  for (ExitHook& place : g_exit_hooks) {
    void* nobody = nullptr;
    if (!place.context.compare_exchange_strong(nobody, context, std::memory_order_acq_rel)) continue;
    place.call.store(hook, std::memory_order_seq_cst);
    return true;
  }
  return false;
}

void EpochRegistry::remove_exit_hook(void* context) noexcept {
  for (ExitHook& place : g_exit_hooks) {
    if (place.context.load(std::memory_order_acquire) != context) continue;
    place.call.store(nullptr, std::memory_order_seq_cst);
    for (Backoff backoff; place.callers.load(std::memory_order_seq_cst) != 0;) backoff.pause();
    place.context.store(nullptr, std::memory_order_release);
  }
}

void EpochRegistry::reset_after_fork() noexcept {
  for (Slot& slot : slots_) {
    slot.value.store(0, std::memory_order_relaxed);
    slot.owned.store(&slot == t_slot, std::memory_order_relaxed);
  }
  for (ExitHook& place : g_exit_hooks) {
    place.call.store(nullptr, std::memory_order_relaxed);
    place.context.store(nullptr, std::memory_order_relaxed);
    place.callers.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tidepool::runtime
