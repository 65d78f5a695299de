// freeze(): from then on everything stays, also what is being allocated while it happens.

#include <functional>
#include <latch>
#include <thread>
#include <utility>

#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

/// A device that lets something happen in the middle of a query, where another thread could run.
class Interrupted final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void()> at_query;

  Status query(EventHandle event) noexcept override {
    if (auto happening = std::exchange(at_query, {})) happening();
    return ForwardingDevice::query(event);
  }
};

std::unique_ptr<Runtime> runtime_on(Device& device) {
  Options options = default_options();
  REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "64MiB").ok());
  const auto created = Runtime::create(device, options, GiB(4));
  REQUIRE(created.ok());
  return std::unique_ptr<Runtime>(*created);
}

bool stays(const Runtime& runtime, DevicePtr at) {
  const Block& block = runtime.arena().block(runtime.find(at.address()));
  return block.kept.load() && block.load().state() == BlockState::kResident;
}

}  // namespace

TEST_CASE("freeze: an allocation that has looked for it before it came is kept all the same") {
  fakes::FakeDevice fake({MiB(256), MiB(2), 1});
  Interrupted device(fake);
  const std::unique_ptr<Runtime> runtime = runtime_on(device);
  const StreamHandle stream = fake.create_program_stream(false);
  const DevicePtr here = *runtime->allocate(MiB(4));
  // Freed memory that is still in use: an allocation elsewhere asks the device about it.
  const DevicePtr freed = *runtime->allocate_in(MiB(4), stream);
  const BlockId set[] = {runtime->find(here.address()), runtime->find(freed.address())};
  fake.hold(stream);
  REQUIRE(runtime->launch(set, stream, "kernel",
                          [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); }) == 0);
  REQUIRE(runtime->free_in(freed, stream).ok());
  runtime->capture_begins();  // there is a mark for all that was used
  bool interrupted = false;
  device.at_query = [&] {
    interrupted = true;
    REQUIRE(runtime->freeze("test").ok());
  };
  const auto late = runtime->allocate(MiB(4));
  REQUIRE(interrupted);
  REQUIRE(runtime->frozen());
  REQUIRE(late.ok());
  CHECK(stays(*runtime, here));
  CHECK(stays(*runtime, *late));
  fake.end_hold(stream);
  fake.run_all();
}

TEST_CASE("freeze: what other threads allocate meanwhile is kept, whoever comes first") {
  for (std::uint64_t round = 0; round < 60; ++round) {
    fakes::FakeDevice fake({MiB(256), MiB(2), round});
    const std::unique_ptr<Runtime> runtime = runtime_on(fake);
    constexpr int kBlocks = 12;
    std::vector<DevicePtr> blocks;
    std::latch start(2);
    std::thread other([&] {
      start.arrive_and_wait();
      for (int i = 0; i < kBlocks; ++i) {
        const auto at = runtime->allocate(MiB(2));
        if (at.ok()) blocks.push_back(*at);
      }
    });
    start.arrive_and_wait();
    const Nanos until = monotonic_now() + Nanos(static_cast<std::int64_t>(round) * 200);
    while (monotonic_now() < until) {
    }
    CHECK(runtime->freeze("test").ok());
    other.join();
    CHECK(blocks.size() == kBlocks);
    for (const DevicePtr at : blocks) {
      INFO("round " << round);
      REQUIRE(stays(*runtime, at));
    }
  }
}

TEST_CASE("freeze: one that fails takes nothing away from one that does not") {
  Program program({.budget = "16MiB"});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(program.allocate(MiB(4)));
  REQUIRE(program.runtime().freeze("test").ok());
  const DevicePtr later = program.allocate(MiB(4));
  CHECK(stays(program.runtime(), later));
  CHECK(program.runtime().allocate(MiB(4)).error() == kOutOfMemory);  // all that there is is kept
  program.check();
}

}  // namespace tidepool::runtime
