#include "tools/simgpu/timing/shared_clock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace simgpu::timing {
namespace {

using Slot = SharedClock::Slot;

constexpr long kLookAroundNs = 20'000'000;  ///< between two looks at who is waited for
/// Who is inside a call is busy, moving bytes perhaps; but it may wait for something that never comes.
constexpr int kInsideFactor = 100;
/// Who makes calls may be about to queue work: starting takes many calls and no engine.
constexpr int kOnlookerFactor = 10;
constexpr std::uint64_t kOnlookerCalls = 100;

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{0, kLookAroundNs};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Holds the clock's lock.
class Locked {
 public:
  Locked(SharedClock& clock, ProcessNumber self) : clock_(clock) {
    for (unsigned tries = 1;; ++tries) {
      ProcessNumber holder = 0;
      if (clock_.lock.compare_exchange_weak(holder, self, std::memory_order_acquire)) return;
      ::sched_yield();
      // Held for some ten instructions, unless the holder was killed in between. What it protects are single
      // numbers that only grow, so they are good in any case.
      constexpr unsigned kRareLook = 4096;
      if (holder != 0 && holder != self && tries % kRareLook == 0 && has_ended(holder) &&
          clock_.lock.compare_exchange_strong(holder, self, std::memory_order_acquire)) {
        return;
      }
    }
  }
  ~Locked() { clock_.lock.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SharedClock& clock_;
};

void drop(SharedClock& clock, Slot& slot) {
  clock.latest.store(std::max(clock.latest.load(), slot.bound.load()));
  slot.state.store(SharedClock::kFree);
}

void tell_others(SharedClock& clock) {
  clock.epoch.fetch_add(1);
  wake_all(clock.epoch);
}

}  // namespace

void forget_process(SharedClock& clock, ProcessNumber process) {
  // exec() ended the thread that held it.
  ProcessNumber holder = process;
  clock.lock.compare_exchange_strong(holder, 0);
  {
    const Locked lock(clock, process);
    for (std::size_t i = 0; i < clock.used.load(); ++i) {
      Slot& slot = clock.slots[i];
      if (slot.state.load() != SharedClock::kFree && slot.process.load() == process) drop(clock, slot);
    }
  }
  tell_others(clock);
}

bool SharedEngines::join(ProcessNumber self, int rank, Nanos* start) {
  self_ = self;
  {
    const Locked lock(clock_, self_);
    const std::uint32_t used = clock_.used.load();
    std::size_t free = used;
    Nanos slowest = -1;
    for (std::size_t i = 0; i < used; ++i) {
      Slot& slot = clock_.slots[i];
      if (slot.state.load() != SharedClock::kFree && has_ended(slot.process.load())) drop(clock_, slot);
      if (slot.state.load() == SharedClock::kFree) free = std::min(free, i);
      if (slot.state.load() != SharedClock::kJoined) continue;
      slowest = slowest < 0 ? slot.bound.load() : std::min(slowest, slot.bound.load());
    }
    if (free == SharedClock::kSlots) return false;
    const bool together = clock_.joined.load() < clock_.expected.load();
    *start = together ? 0 : std::max(slowest, slowest < 0 ? clock_.latest.load() : 0);
    slot_ = free;
    Slot& slot = mine();
    slot.process.store(self_);
    slot.rank.store(rank >= 0 ? static_cast<std::uint64_t>(rank) : clock_.joined.load());
    slot.bound.store(*start);
    slot.calls.store(0);
    slot.asks.store(0);
    slot.idle.store(1);
    slot.inside.store(0);
    slot.waits.store(0);
    slot.state.store(SharedClock::kJoined);
    clock_.joined.fetch_add(1);
    if (free == used) clock_.used.store(used + 1);
  }
  tell_others(clock_);
  return true;
}

void SharedEngines::leave() {
  {
    const Locked lock(clock_, self_);
    drop(clock_, mine());
  }
  slot_ = kNobody;
  tell_others(clock_);
}

void SharedEngines::enter_call() noexcept {
  Slot& slot = mine();
  slot.inside.fetch_add(1, std::memory_order_relaxed);
  slot.calls.fetch_add(1, std::memory_order_release);
  come_back();
}

void SharedEngines::leave_call() noexcept {
  come_back();
  mine().inside.fetch_sub(1, std::memory_order_release);
}

void SharedEngines::come_back() noexcept {
  if (mine().state.load(std::memory_order_relaxed) != SharedClock::kPassedOver) return;
  const Locked lock(clock_, self_);
  mine().state.store(SharedClock::kJoined);
}

void SharedEngines::stand_aside() {
  if (mine().state.load(std::memory_order_relaxed) == SharedClock::kPassedOver) return;
  {
    const Locked lock(clock_, self_);
    mine().state.store(SharedClock::kPassedOver);
  }
  if (clock_.waiting.load() != 0) tell_others(clock_);
}

bool SharedEngines::blocks(const Slot& other, Nanos ready) const {
  if (&other == &mine() || other.state.load() != SharedClock::kJoined) return false;
  const Nanos bound = other.bound.load();
  return bound != ready ? bound < ready : other.rank.load() < mine().rank.load();
}

bool SharedEngines::find_blocker(Nanos ready, std::size_t* who) const {
  *who = kNobody;
  if (clock_.joined.load() < clock_.expected.load()) return true;
  const std::size_t used = clock_.used.load();
  for (std::size_t i = 0; i < used; ++i) {
    if (!blocks(clock_.slots[i], ready)) continue;
    *who = i;
    return true;
  }
  return false;
}

bool SharedEngines::take(const Work& work, Nanos ready, bool may_wait, Span* out) {
  mine().asks.fetch_add(1, std::memory_order_relaxed);
  if (mine().state.load(std::memory_order_relaxed) == SharedClock::kLooksOn) {
    const Locked lock(clock_, self_);
    mine().state.store(SharedClock::kJoined);
  }
  promise(ready, false);
  for (;;) {
    std::size_t blocker = kNobody;
    {
      const Locked lock(clock_, self_);
      if (!find_blocker(ready, &blocker)) {
        *out = occupy(clock_.devices[work.device], work, ready, options_.links[work.device]);
        watched_ = kNobody;
        return true;
      }
    }
    if (!may_wait) return false;
    wait_for(blocker, ready);
  }
}

void SharedEngines::wait_for(std::size_t who, Nanos ready) {
  clock_.waiting.fetch_add(1);
  mine().waits.store(1);
  const std::uint32_t epoch = clock_.epoch.load();
  // Whoever raises a bound from here on sees that somebody waits.
  std::size_t still = kNobody;
  const auto asleep_since = std::chrono::steady_clock::now();
  if (find_blocker(ready, &still) && still == who) sleep_on(clock_.epoch, epoch);
  mine().waits.store(0);
  clock_.waiting.fetch_sub(1);
  judge(who, std::chrono::steady_clock::now() - asleep_since);
}

void SharedEngines::judge(std::size_t who, std::chrono::steady_clock::duration slept) {
  const auto now = std::chrono::steady_clock::now();
  const bool expecting = who == kNobody;
  const std::uint64_t calls =
      expecting ? clock_.joined.load() : clock_.slots[who].calls.load(std::memory_order_acquire);
  const std::size_t watched = expecting ? SharedClock::kSlots + 1 : who;
  const bool looks = !expecting && looks_on(who, slept);
  if (!looks && (watched_ != watched || watched_calls_ != calls)) {
    watched_ = watched;
    watched_calls_ = calls;
    watched_since_ = now;
    return;
  }
  const auto waited = now - watched_since_;
  if (expecting) {
    if (waited < options_.start) return;
    clock_.expected.store(clock_.joined.load());
    clock_.escapes.fetch_add(1);
    return;
  }
  Slot& slot = clock_.slots[who];
  const bool dead = has_ended(slot.process.load());
  // Who waits is not to blame, and finds out who is.
  const bool waits = slot.waits.load() != 0;
  const bool inside = slot.inside.load(std::memory_order_acquire) != 0;
  if (!dead && !looks && (waits || waited < options_.patience * (inside ? kInsideFactor : 1))) return;
  const Locked lock(clock_, self_);
  if (slot.state.load() != SharedClock::kJoined) return;
  if (dead) {
    drop(clock_, slot);
  } else {
    slot.state.store(looks ? SharedClock::kLooksOn : SharedClock::kPassedOver);
    clock_.escapes.fetch_add(1);
  }
}

bool SharedEngines::looks_on(std::size_t who, std::chrono::steady_clock::duration slept) {
  const Slot& slot = clock_.slots[who];
  Onlooker& seen = onlookers_[who];
  const ProcessNumber process = slot.process.load();
  const std::uint64_t asks = slot.asks.load(std::memory_order_relaxed);
  const std::uint64_t calls = slot.calls.load(std::memory_order_acquire);
  const bool idle = slot.idle.load(std::memory_order_relaxed) != 0;
  if (!idle || seen.process != process || seen.asks != asks) seen = {process, asks, calls, {}};
  seen.waited += slept;
  return idle && slot.waits.load() == 0 && seen.waited >= options_.patience * kOnlookerFactor &&
         calls - seen.calls >= kOnlookerCalls;
}

void SharedEngines::promise(Nanos bound, bool idle) {
  Slot& slot = mine();
  slot.idle.store(idle ? 1 : 0, std::memory_order_relaxed);
  if (bound <= slot.bound.load(std::memory_order_relaxed)) return;
  slot.bound.store(bound);
  if (clock_.waiting.load() != 0) tell_others(clock_);
}

}  // namespace simgpu::timing
