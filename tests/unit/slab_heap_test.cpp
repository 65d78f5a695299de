// Small allocations while one of them waits for the device: it alone waits.

#include <chrono>
#include <future>
#include <thread>

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr auto kSoon = std::chrono::seconds(5);
constexpr auto kLongEnough = std::chrono::milliseconds(100);

/// True if it comes soon and is true; where it does not, it is waited for after `let_go`.
template <class Call, class LetGo>
bool is_soon_true(Call&& call, LetGo&& let_go) {
  auto done = std::async(std::launch::async, call);
  const bool is_over = done.wait_for(kSoon) == std::future_status::ready;
  if (!is_over) let_go();
  return done.get() && is_over;
}

}  // namespace

TEST_CASE("slab heap: while one thread waits for a slab, others free small memory and ask about it") {
  Program program({.budget = "16MiB"});
  const DevicePtr first = program.allocate_in(MiB(1), 1);
  const DevicePtr second = program.allocate_in(MiB(1), 1);  // the slab is full
  const DevicePtr blocks[] = {program.allocate(MiB(6)), program.allocate(MiB(4)), program.allocate(MiB(4))};
  program.device().hold(program.stream(0));
  for (const DevicePtr at : blocks) REQUIRE(program.touch({at}, 0).ok());
  bool is_held = true;
  const auto let_go = [&] {
    if (std::exchange(is_held, false)) program.device().end_hold(program.stream(0));
  };
  auto third = std::async(std::launch::async,
                          [&] { return program.runtime().allocate_in(MiB(1), program.stream(1)); });
  // It needs the memory of a block that the device uses.
  CHECK(third.wait_for(kLongEnough) == std::future_status::timeout);
  CHECK(is_soon_true([&] { return program.runtime().describe(first).size == MiB(1); }, let_go));
  CHECK(is_soon_true([&] { return program.runtime().free_in(second, program.stream(1)).ok(); }, let_go));
  CHECK(is_held);
  let_go();
  const auto at = third.get();
  REQUIRE(at.ok());
  CHECK(program.runtime().describe(*at).size == MiB(1));
  program.synchronize();
  program.check();
}

TEST_CASE("slab heap: threads that need slabs at once get places of their own, and no more slabs than that") {
  Program program({.budget = "128MiB", .check = "off"});
  constexpr int kThreads = 8;
  constexpr int kPlaces = 16;  // in each of them
  std::vector<std::future<std::vector<DevicePtr>>> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      std::vector<DevicePtr> places;
      for (int k = 0; k < kPlaces; ++k) {
        const auto at = program.runtime().allocate_in(KiB(256), program.stream(0));
        if (at.ok()) places.push_back(*at);
      }
      return places;
    }));
  }
  std::map<std::uint64_t, int> owners;
  for (auto& thread : threads) {
    for (const DevicePtr at : thread.get()) ++owners[at.address()];
  }
  CHECK(owners.size() == kThreads * kPlaces);
  CHECK(program.runtime().allocated() == MiB(2) * (kThreads * kPlaces / 8));
  for (const auto& [address, count] : owners) {
    CHECK(count == 1);
    CHECK(program.runtime().free_in(DevicePtr(address), program.stream(0)).ok());
  }
  program.synchronize();
  program.check();
}

// A slab for each of them would be all that the budget has.
TEST_CASE("slab heap: many streams with little each share slabs before these take more than a quarter") {
  Program program({.budget = "32MiB", .streams = 40});
  std::vector<DevicePtr> places;
  for (std::size_t i = 0; i < 40; ++i) places.push_back(program.allocate_in(KiB(4), i));
  CHECK(program.runtime().allocated() <= MiB(10));
  const DevicePtr large = program.allocate(MiB(20));
  CHECK(program.touch({large}, 0).ok());
  std::map<std::uint64_t, int> owners;
  for (const DevicePtr at : places) CHECK(++owners[at.address()] == 1);
  for (std::size_t i = 0; i < places.size(); ++i)
    CHECK(program.runtime().free_in(places[i], program.stream(i)).ok());
  program.synchronize();
  program.check();
}

// What is full cannot be shared.
TEST_CASE("slab heap: small allocations may take more than a quarter of the budget where they fill it") {
  Program program({.budget = "32MiB", .streams = 6});
  std::vector<DevicePtr> places;
  for (std::size_t i = 0; i < 24; ++i) places.push_back(program.allocate_in(MiB(1), i % 6));
  CHECK(program.runtime().allocated() == MiB(24));
  program.check();
}

}  // namespace tidepool::runtime
