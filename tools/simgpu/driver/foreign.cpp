#include "tools/simgpu/driver/foreign.h"

#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

#include "tools/simgpu/driver/driver.h"

namespace simgpu {
namespace {

constexpr std::int64_t kMilli = 1'000'000;
constexpr std::int64_t kRecent = 100 * kMilli;  ///< how long a wait counts after its last sign
constexpr std::int64_t kNap = kMilli / 5;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000 * kMilli + now.tv_nsec;
}

void nap(std::int64_t nanos) {
  const timespec time{0, nanos};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

[[noreturn]] void serve(Driver& driver) {
  const std::atomic<std::int64_t>& waited_at = (*driver.machine)->shared_events.waited_at;
  for (;;) {
    nap(kMilli);
    if (now_ns() - waited_at.load(std::memory_order_relaxed) > kRecent) continue;
    const std::scoped_lock lock(driver.mutex);
    driver.scheduler.run_everything_ready();
  }
}

/// Records that a process left behind when it ended are over: nothing will run them.
void complete_for_the_dead(Machine& machine) {
  for (SharedEvent& event : machine.shared_events.events) {
    if ((event.generation.load(std::memory_order_acquire) & 1) == 0) continue;
    const std::uint64_t recorded = event.recorded.load();
    if (event.completed.load() >= recorded) continue;
    if (!alive(machine.processes[event.recorder.load()])) event.complete(recorded);
  }
}

}  // namespace

void serve_other_processes(Driver& driver) {
  static std::once_flag once;
  std::call_once(once, [&] {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    // Signals are the program's: none of them may end up in this thread.
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([&driver] { serve(driver); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
}

void wait_for_others(Driver& driver) {
  Machine& machine = **driver.machine;
  static std::int64_t looked_at = 0;  // under the lock
  const std::int64_t now = now_ns();
  machine.shared_events.waited_at.store(now, std::memory_order_relaxed);
  if (now - looked_at > kRecent) {
    looked_at = now;
    complete_for_the_dead(machine);
  }
  driver.ledger.stand_aside();
  driver.mutex.unlock();
  nap(kNap);
  driver.mutex.lock();
}

std::optional<Condition> foreign_record(const Driver& driver, const Event& event) {
  SharedEvent* shared = event.shared;
  if (shared == nullptr || shared->generation.load(std::memory_order_acquire) != event.shared_generation)
    return {};
  const std::uint64_t latest = shared->recorded.load(std::memory_order_acquire);
  if (shared->completed.load(std::memory_order_acquire) >= latest) return {};
  const bool ours = shared->recorder.load() == driver.slot_number();
  if (ours && event.record != nullptr && event.record->number == latest) return {};
  const auto address = reinterpret_cast<std::uint64_t>(&shared->completed);
  return Condition{address, latest, 64, CU_STREAM_WAIT_VALUE_GEQ, true};
}

void number_record(Driver& driver, const Event& event, EventRecord* record) {
  SharedEvent* shared = event.shared;
  if (shared == nullptr || shared->generation.load(std::memory_order_acquire) != event.shared_generation)
    return;
  shared->recorder.store(driver.slot_number());
  record->shared = shared;
  record->number = shared->recorded.fetch_add(1) + 1;
}

void end_shared_event(const Event& event) {
  if (event.shared == nullptr || event.opened) return;
  event.shared->generation.store(event.shared_generation + 1, std::memory_order_release);
}

SharedEvent* new_shared_event(Driver& driver, std::uint32_t* index) {
  Machine& machine = **driver.machine;
  const std::scoped_lock lock(machine.mutex);
  for (std::uint32_t i = 0; i < SharedEvents::kMax; ++i) {
    SharedEvent& event = machine.shared_events.events[i];
    const std::uint64_t generation = event.generation.load();
    const bool used = (generation & 1) != 0;
    if (used && alive(machine.processes[event.maker.load()])) continue;
    event.recorded.store(0);
    event.completed.store(0);
    event.maker.store(driver.slot_number());
    event.recorder.store(driver.slot_number());
    event.generation.store(generation + (used ? 2 : 1), std::memory_order_release);
    *index = i;
    return &event;
  }
  return nullptr;
}

}  // namespace simgpu
