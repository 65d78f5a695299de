// Who waits for another thread must let it run, also where the waiting one goes first (SCHED_FIFO).

#include "allocator/backoff.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>

#include "allocator/epoch.h"

namespace tidepool::runtime {
namespace {

/// The thread runs on the first processor that this process may use, as all others that were told so.
bool run_on_one_processor() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
}

bool go_first() {
  sched_param parameters{};
  parameters.sched_priority = 1;
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

TEST_CASE("backoff: a thread that goes first lets a launch finish that it waits for") {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_leave{false};
  std::atomic<bool> can_go_first{true};
  std::uint64_t stuck = ~std::uint64_t{0};
  std::thread launcher([&] {
    (void)run_on_one_processor();
    const EpochGuard guard(EpochRegistry::instance().mine(), 1);
    is_inside = true;
    while (!may_leave) sched_yield();
  });
  while (!is_inside) std::this_thread::yield();
  std::thread evictor([&] {
    can_go_first = run_on_one_processor() && go_first();
    may_leave = true;
    if (can_go_first) stuck = EpochRegistry::instance().quiesce(millis(300));
  });
  evictor.join();
  launcher.join();
  if (!can_go_first) {
    WARN("this user may not have real-time threads: nothing was tested");
    return;
  }
  CHECK(stuck == 0);
}

}  // namespace
}  // namespace tidepool::runtime
