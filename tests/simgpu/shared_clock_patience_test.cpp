#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "tools/simgpu/timing/shared_clock.h"

/// Who is not waited for, for how long, and what brings a process back.
namespace {

using namespace std::chrono_literals;
using simgpu::timing::Engine;
using simgpu::timing::Nanos;
using simgpu::timing::SharedClock;
using simgpu::timing::SharedEngines;
using simgpu::timing::Work;

}  // namespace

TEST_CASE("shared clock: who was passed over is waited for again after its next call") {
  const auto clock = std::make_unique<SharedClock>();
  SharedEngines::Options options;
  options.patience = 50ms;
  SharedEngines slow(*clock, options);
  SharedEngines quick(*clock, options);
  Nanos start = -1;
  REQUIRE(slow.join(simgpu::this_process(), -1, &start));
  REQUIRE(quick.join(simgpu::this_process(), -1, &start));
  CHECK(start == 0);
  simgpu::timing::Span span;
  const Work work{Engine::kCompute, 0, 0, 10};
  REQUIRE(quick.take(work, 5, true, &span));
  CHECK(clock->escapes.load() == 1);
  CHECK(quick.take(work, 6, false, &span));
  slow.enter_call();
  slow.leave_call();
  CHECK_FALSE(quick.take(work, 7, false, &span));
  slow.promise(8, true);
  CHECK(quick.take(work, 7, false, &span));
  CHECK(span.start == 25);
  // At the same time the one that joined first goes first.
  CHECK_FALSE(quick.take(work, 8, false, &span));
  CHECK(slow.take(work, 8, false, &span));
}

TEST_CASE("shared clock: a process that looks on, with calls and no work, holds others up for a while only") {
  const auto clock = std::make_unique<SharedClock>();
  SharedEngines::Options options;
  options.patience = 10ms;
  SharedEngines monitor(*clock, options);
  SharedEngines other(*clock, options);
  Nanos start = -1;
  REQUIRE(monitor.join(simgpu::this_process(), -1, &start));
  REQUIRE(other.join(simgpu::this_process(), -1, &start));
  std::atomic<bool> over{false};
  // Its time passes far more slowly than that of the work beside it.
  std::thread asking([&] {
    for (Nanos now = 1; !over.load(); ++now) {
      monitor.enter_call();
      monitor.promise(now, true);
      monitor.leave_call();
      std::this_thread::sleep_for(500us);
    }
  });
  const Work work{Engine::kCompute, 0, 0, 10};
  simgpu::timing::Span span;
  REQUIRE(other.take(work, 1'000'000'000, true, &span));
  CHECK(clock->escapes.load() == 1);
  for (Nanos at = 1'000'000'010; at < 1'000'001'000; at += 10) CHECK(other.take(work, at, false, &span));
  over.store(true);
  asking.join();
  // With work of its own it takes part again.
  CHECK_FALSE(monitor.take(work, 2'000'000'000, false, &span));
  CHECK_FALSE(other.take(work, 3'000'000'000, false, &span));
  CHECK(monitor.take(work, 2'000'000'000, false, &span));
  CHECK(clock->escapes.load() == 1);
}

TEST_CASE("shared clock: a process that has work queued does not look on") {
  const auto clock = std::make_unique<SharedClock>();
  SharedEngines::Options options;
  options.patience = 10ms;
  SharedEngines busy(*clock, options);
  SharedEngines other(*clock, options);
  Nanos start = -1;
  REQUIRE(busy.join(simgpu::this_process(), -1, &start));
  REQUIRE(other.join(simgpu::this_process(), -1, &start));
  std::thread asking([&] {
    for (int i = 0; i < 500; ++i) {  // more than twice what an onlooker is given
      busy.enter_call();
      busy.promise(1, false);
      busy.leave_call();
      std::this_thread::sleep_for(500us);
    }
    busy.enter_call();
    busy.promise(1'000, true);
    busy.leave_call();
  });
  simgpu::timing::Span span;
  REQUIRE(other.take(Work{Engine::kCompute, 0, 0, 10}, 500, true, &span));
  asking.join();
  // On a busy machine it may have been silent for too long; that ends with its next call.
  CHECK(clock->slots[0].state.load() == SharedClock::kJoined);
}
