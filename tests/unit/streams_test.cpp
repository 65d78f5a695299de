#include "allocator/streams.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

StreamHandle handle_of(std::uint64_t number) {
  return StreamHandle{0x7000'0000 + number * 0x10};  // addresses, as a driver's are
}

TEST_CASE("streams: 200,000 that come and go leave searches as short as they were") {
  fakes::FakeDevice device;
  StreamTable streams(device);
  std::mt19937_64 random(1);
  std::deque<StreamHandle> live;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    live.push_back(handle_of(i));
    REQUIRE(streams.find(live.back()) != nullptr);
    if (live.size() <= 100) continue;
    std::swap(live.front(), live[random() % live.size()]);  // some stay for long
    streams.retire(live.front());
    live.pop_front();
  }
  CHECK(streams.known() <= 101);
  CHECK(streams.longest_search() <= 16);
  for (const StreamHandle one : live) CHECK(streams.find(one)->handle() == one);
  for (const StreamHandle one : live) streams.retire(one);
  CHECK(streams.longest_search() == 1);
}

TEST_CASE("streams: as many as there are entries, a thousand times over, are all found") {
  fakes::FakeDevice device;
  StreamTable streams(device);
  std::vector<StreamHandle> live;
  std::uint64_t next = 0;
  while (live.size() + 1 < StreamTable::kMaxStreams) {
    live.push_back(handle_of(next++));
    REQUIRE(streams.find(live.back()) != nullptr);
  }
  CHECK(streams.find(handle_of(next)) == nullptr);
  std::mt19937_64 random(2);
  for (int round = 0; round < 20'000; ++round) {
    StreamHandle& one = live[random() % live.size()];
    streams.retire(one);
    one = handle_of(++next);
    REQUIRE(streams.find(one) != nullptr);
  }
  for (const StreamHandle one : live) CHECK(streams.find(one)->handle() == one);
  CHECK(streams.longest_search() <= 200);  // a quarter of the slots is in use
}

TEST_CASE("streams: threads that end give back the entries of their own streams") {
  fakes::FakeDevice device;
  StreamTable streams(device);
  for (int i = 0; i < 3'000; ++i) {
    std::thread([&] {
      Stream* const mine = streams.find(kPerThreadStream);
      if (mine == nullptr || streams.find(kPerThreadStream) != mine) std::abort();
      streams.retire_thread();
    }).join();
  }
  CHECK(streams.known() == 1);
  CHECK(streams.longest_search() == 1);
}

TEST_CASE("streams: an entry is given to another stream only once its work has passed") {
  fakes::FakeDevice device;
  StreamTable streams(device);
  const StreamHandle first = device.create_program_stream();
  const StreamHandle second = device.create_program_stream();
  Stream* const one = streams.find(first);
  REQUIRE(one != nullptr);
  const std::uint16_t index = one->index();
  REQUIRE(device.submit(first, "work", [](fakes::FakeDevice::Access&) {}).ok());
  const Use use = one->draw();
  device.hold(first);
  REQUIRE(streams.mark(*one).ok());
  streams.retire(first);
  CHECK_FALSE(streams.passed(use));
  CHECK(streams.find(second)->index() != index);
  device.end_hold(first);
  device.run_all();
  CHECK(streams.passed(use));
  CHECK(streams.find(device.create_program_stream())->index() == index);
  CHECK(device.errors().empty());
}

TEST_CASE("streams: searches beside changes find what is there") {
  fakes::FakeDevice device;
  StreamTable streams(device);
  constexpr std::uint64_t kStay = 200;
  for (std::uint64_t i = 0; i < kStay; ++i) REQUIRE(streams.find(handle_of(i)) != nullptr);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = kStay + t; !stop.load(std::memory_order_relaxed); i += 2) {
        Stream* const made = streams.find(handle_of(i));
        if (made == nullptr || made->handle() != handle_of(i)) ++wrong;
        streams.retire(handle_of(i));
      }
    });
  }
  for (int round = 0; round < 2'000; ++round) {
    for (std::uint64_t i = 0; i < kStay; ++i) {
      const Stream* const found = streams.find(handle_of(i));
      if (found == nullptr || found->handle() != handle_of(i)) ++wrong;
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(streams.known() <= kStay + 4);
}

}  // namespace
}  // namespace tidepool::runtime
