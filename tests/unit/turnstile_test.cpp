// One thread at a time, in order of arrival.
#include "allocator/turnstile.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tidepool::runtime {
namespace {

/// Whether the thread sleeps, as the kernel tells.
bool is_asleep(pid_t thread) {
  std::string line;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat"), line);
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

std::uint64_t turns() {
  return StatsPage::instance().get(Metric::wait_turn_ns_total);
}

}  // namespace

TEST_CASE("turnstile: threads pass in the order in which they came, however they are woken") {
  for (int round = 0; round < 20; ++round) {
    Turnstile turnstile;
    std::vector<int> passed;
    std::vector<std::thread> threads;
    turnstile.enter();
    for (int i = 0; i < 5; ++i) {
      std::atomic<pid_t> waiting{0};
      threads.emplace_back([&turnstile, &passed, &waiting, i] {
        waiting.store(gettid());
        const TurnstileGuard turn(turnstile);
        passed.push_back(i);
      });
      // It sleeps nowhere but where it waits for its turn.
      while (waiting.load() == 0 || !is_asleep(waiting.load())) std::this_thread::yield();
    }
    CHECK(passed.empty());
    turnstile.leave();
    for (std::thread& thread : threads) thread.join();
    CHECK(passed == std::vector{0, 1, 2, 3, 4});
  }
}

TEST_CASE("turnstile: one thread at a time is inside") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Turnstile turnstile;
  int count = 0;
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const TurnstileGuard turn(turnstile);
        together.fetch_add(inside.fetch_add(1) != 0 ? 1 : 0);
        ++count;
        inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == kThreads * kRounds);
  CHECK(together == 0);
}

TEST_CASE("turnstile: the time until its turn is charged to the thread's wait, and not the time inside") {
  Turnstile turnstile;
  const std::uint64_t before = turns();
  std::uint64_t waited = 0;
  std::uint64_t in_all = 0;
  std::atomic<pid_t> waiting{0};
  turnstile.enter();
  std::thread other([&] {
    waiting.store(gettid());
    { const TurnstileGuard turn(turnstile); }
    waited = turns() - before;
    const TurnstileGuard turn(turnstile);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    in_all = turns() - before;
  });
  while (waiting.load() == 0 || !is_asleep(waiting.load())) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  turnstile.leave();
  other.join();
  CHECK(waited >= 30'000'000);
  CHECK(in_all - waited < 150'000'000);
}

}  // namespace tidepool::runtime
