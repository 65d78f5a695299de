// Two devices of one process: who waits for whose streams, what they share, and what is added up.

#include <catch2/catch.hpp>
#include <memory>

#include "allocator/device_sums.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr unsigned kPeer = 3;

/// A program on one device, and a stream of another that uses its memory.
struct TwoDevices {
  TwoDevices() { program.runtime().add_peer(kPeer, peer); }
  ~TwoDevices() { peer.run_all(); }

  /// Work of the peer that touches the block.
  void touch(DevicePtr at, StreamHandle stream) {
    const BlockId id = program.runtime().find(at.address());
    const int code = program.runtime().launch({&id, 1}, stream_of_peer(stream, kPeer), "a test", [&] {
      return peer.submit(stream, "work of the peer", [&](auto&) { ++done; }).code();
    });
    REQUIRE(code == 0);
    ++given;
  }

  fakes::FakeDevice peer{{MiB(64), MiB(2), 7}};
  Program program{{.budget = "24MiB"}};
  int given = 0;
  int done = 0;
};

TEST_CASE("peers: a handle and the number of its device are told apart again") {
  for (const std::uint64_t handle : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{0x7fff'dead'bee0}}) {
    for (const unsigned device : {0u, 1u, kMostDevices - 1}) {
      const StreamHandle named = stream_of_peer(StreamHandle{handle}, device);
      CHECK(peer_of(named) == static_cast<int>(device));
      CHECK(handle_at_home(named) == StreamHandle{handle});
      CHECK(named != StreamHandle{handle});
    }
    CHECK(peer_of(StreamHandle{handle}) == -1);
    CHECK(handle_at_home(StreamHandle{handle}) == StreamHandle{handle});
  }
}

// pytorch#196258: the wrong device was waited for.
TEST_CASE("peers: a free waits for the streams of another device that have used the memory") {
  TwoDevices two;
  const DevicePtr block = two.program.allocate(MiB(4));
  REQUIRE(two.program.touch({block}, 0).ok());
  for (int i = 0; i < 40; ++i) two.touch(block, two.peer.create_program_stream(false));
  CHECK(two.done < two.given);
  REQUIRE(two.program.runtime().free(block).ok());
  CHECK(two.done == two.given);
}

TEST_CASE("peers: memory that a peer is using does not leave before it is done") {
  TwoDevices two;
  const DevicePtr block = two.program.allocate(MiB(16));
  REQUIRE(two.program.touch({block}, 0).ok());
  const StreamHandle stream = two.peer.create_program_stream(false);
  two.touch(block, stream);
  // Needs most of the budget. The fake devices cannot wait for each other's events, so the host waits.
  const DevicePtr other = two.program.allocate(MiB(16));
  const Status brought = two.program.touch({other}, 0);
  CHECK((!brought.ok() || two.done == two.given));
}

TEST_CASE("peers: nobody waits for a device whose context is gone") {
  TwoDevices two;
  const DevicePtr block = two.program.allocate(MiB(4));
  REQUIRE(two.program.touch({block}, 0).ok());
  two.touch(block, two.peer.create_program_stream(false));
  two.program.runtime().remove_peer(kPeer);
  const std::uint64_t waits = two.peer.calls("synchronize");
  const std::uint64_t questions = two.peer.calls("query");
  REQUIRE(two.program.runtime().free(block).ok());
  CHECK(two.peer.calls("synchronize") == waits);
  CHECK(two.peer.calls("query") == questions);
}

TEST_CASE("peers: a device that is broken runs nothing any more, and is no reason to fail") {
  TwoDevices two;
  const DevicePtr block = two.program.allocate(MiB(4));
  REQUIRE(two.program.touch({block}, 0).ok());
  const StreamHandle stream = two.peer.create_program_stream(false);
  two.touch(block, stream);
  REQUIRE(two.peer.submit_fill(stream, DevicePtr(64), Bytes(1), 1).ok());  // where nothing is mapped
  two.peer.run_all();
  REQUIRE_FALSE(two.peer.synchronize().ok());
  CHECK(two.program.runtime().free(block).ok());
}

TEST_CASE("peers: numbers of the process are sums, and a device managed anew has its own again") {
  StatsPage& page = StatsPage::instance();
  const auto metric = Metric::kept_bytes;
  DeviceSums first(0);
  DeviceSums second(5);
  first.set(metric, 100);
  CHECK(page.get(metric) == 100);
  second.set(metric, 30, Metric::host_bytes_peak);
  CHECK(page.get(metric) == 130);
  CHECK(page.get(Metric::host_bytes_peak) == 130);
  first.set(metric, 40);
  CHECK(page.get(metric) == 70);
  DeviceSums again(5);
  again.set(metric, 1);
  CHECK(page.get(metric) == 41);
  first.set(metric, 0);
  again.set(metric, 0);
}

TEST_CASE("peers: nobody is asked for a budget who has left, and the place serves again") {
  BudgetControl& control = StatsPage::instance().budget_control();
  const auto answering = [&] {
    std::vector<std::uint32_t> devices;
    for (const BudgetAnswer& answer : control.answers) {
      if (answer.owned.load() == BudgetAnswer::kAnswers) devices.push_back(answer.device.load());
    }
    return devices;
  };
  const auto before = answering();
  BudgetListener first(3);
  auto second = std::make_unique<BudgetListener>(7);
  CHECK(answering().size() == before.size() + 2);
  CHECK(answering().back() == 7);
  first.close();
  const BudgetListener third(9);
  second.reset();
  first.close();  // the place is another's by now
  CHECK(answering().size() == before.size() + 1);
  CHECK(answering().back() == 9);
}

TEST_CASE("peers: a device that is abandoned has nothing any more, and answers nobody") {
  StatsPage& page = StatsPage::instance();
  Program program{{.budget = "24MiB"}};
  REQUIRE(program.touch({program.allocate(MiB(4))}, 0).ok());
  REQUIRE(page.get(Metric::allocated_bytes) > 0);
  const auto answers = [&] {
    int count = 0;
    for (const BudgetAnswer& answer : page.budget_control().answers)
      count += answer.owned.load() != 0 ? 1 : 0;
    return count;
  };
  CHECK(answers() == 1);
  program.runtime().abandon();
  CHECK(page.get(Metric::allocated_bytes) == 0);
  CHECK(answers() == 0);
}

TEST_CASE("peers: the budget of host memory is for all devices together") {
  fakes::FakeDevice one;
  fakes::FakeDevice other;
  auto first = std::make_unique<HostArena>(one, MiB(64), MiB(2), MiB(16));
  HostArena second(other, MiB(64), MiB(2), MiB(16));
  REQUIRE(first->grow_to(MiB(48)).ok());
  CHECK(first->budget() == MiB(64));
  CHECK(second.budget() == MiB(16));
  REQUIRE(second.allocate(MiB(16)).ok());
  CHECK(second.allocate(MiB(2)).error() == kOutOfMemory);
  CHECK(first->budget() == MiB(48));
  first.reset();
  CHECK(second.budget() == MiB(64));
  CHECK(second.allocate(MiB(48)).ok());
}

}  // namespace
}  // namespace tidepool::runtime
