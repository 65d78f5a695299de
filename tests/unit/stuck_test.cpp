// A thread that is stuck in the driver with a full queue keeps nobody from what that queue waits for.

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr auto kSoon = std::chrono::seconds(5);

/// A device in which the next record in one stream, or the next order to wait that it is given, does not
/// return until it is let go.
class FullQueue final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::promise<void> is_stuck;
  std::promise<void> may_go;

  int code = 0;  ///< what the call answers then

  void fill(StreamHandle stream) {
    stream_ = stream;
    is_armed_ = true;
  }
  void fill_for_waits(StreamHandle stream) {
    stream_ = stream;
    stops_waits_ = true;
  }
  Status wait(StreamHandle stream, EventHandle event) noexcept override {
    if (stops_waits_ && stream == stream_ && stops_waits_.exchange(false)) {
      is_stuck.set_value();
      may_go.get_future().wait();
      if (code != 0) return Status(code);
    }
    return ForwardingDevice::wait(stream, event);
  }
  Status record(EventHandle event, StreamHandle stream) noexcept override {
    if (is_armed_ && stream == stream_ && is_armed_.exchange(false)) {
      is_stuck.set_value();
      may_go.get_future().wait();
    }
    return ForwardingDevice::record(event, stream);
  }

 private:
  StreamHandle stream_{};
  std::atomic<bool> is_armed_{false};
  std::atomic<bool> stops_waits_{false};
};

class Stuck {
 public:
  explicit Stuck(const char* clean = "1") {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CLEAN"), clean).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    full = fake.create_program_stream(false);
    other = fake.create_program_stream(false);
  }
  ~Stuck() { fake.run_all(); }
  Stuck(const Stuck&) = delete;
  Stuck& operator=(const Stuck&) = delete;

  int launch(DevicePtr at, StreamHandle stream) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream, "kernel",
                           [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); });
  }
  /// A thread that launches on the block until it is stuck with a mark.
  std::thread get_stuck(DevicePtr block) {
    device.fill(full);
    std::thread stuck([this, block] {
      for (std::uint64_t i = 0; i < StreamTable::kLaunchesPerCalmMark; ++i) (void)launch(block, full);
    });
    device.is_stuck.get_future().wait();
    return stuck;
  }
  void let_go() { device.may_go.set_value(); }

  fakes::FakeDevice fake{{MiB(256), MiB(2), 1}};
  FullQueue device{fake};
  std::unique_ptr<Runtime> runtime;  // ends before its device
  StreamHandle full;
  StreamHandle other;
};

}  // namespace

TEST_CASE("stuck: a launch in another stream finds its room where the full one is not known to work") {
  Stuck on;
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(*on.runtime->allocate(MiB(4)));
  REQUIRE(on.launch(blocks[0], on.full) == 0);  // the first to leave, and who knows when its kernel ends
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(on.launch(blocks[i], on.other) == 0);
  std::thread stuck = on.get_stuck(blocks[3]);
  auto two = std::async(std::launch::async, [&] { return on.launch(blocks[4], on.other); });
  const bool is_over = two.wait_for(kSoon) == std::future_status::ready;
  on.let_go();
  stuck.join();
  CHECK(two.get() == 0);
  CHECK(is_over);
}

TEST_CASE("stuck: a launch whose room is nowhere else waits, and goes on when the queue does") {
  Stuck on;
  const DevicePtr used = *on.runtime->allocate(MiB(12));
  const DevicePtr busy = *on.runtime->allocate(MiB(2));
  const DevicePtr wanted = *on.runtime->allocate(MiB(10));
  REQUIRE(on.launch(used, on.full) == 0);
  std::thread stuck = on.get_stuck(busy);
  auto two = std::async(std::launch::async, [&] { return on.launch(wanted, on.other); });
  constexpr auto kLongEnough = std::chrono::milliseconds(100);
  CHECK(two.wait_for(kLongEnough) == std::future_status::timeout);
  on.let_go();
  stuck.join();
  CHECK(two.get() == 0);
}

TEST_CASE("stuck: allocations and new streams go on, and a capture begins") {
  Stuck on;
  const DevicePtr block = *on.runtime->allocate(MiB(4));
  const DevicePtr freed = *on.runtime->allocate(MiB(4));
  REQUIRE(on.launch(freed, on.full) == 0);
  REQUIRE(on.runtime->free_in(freed, on.full).ok());
  const DevicePtr small = *on.runtime->allocate_in(KiB(4), on.full);
  REQUIRE(on.runtime->free_in(small, on.full).ok());
  std::thread stuck = on.get_stuck(block);
  auto two = std::async(std::launch::async, [&] {
    on.runtime->capture_begins();
    const StreamHandle fresh = on.fake.create_program_stream(false);
    return on.runtime->allocate_in(MiB(4), on.other).ok() && on.runtime->allocate(MiB(4)).ok() &&
           on.runtime->allocate_in(KiB(4), on.other).ok() && on.launch(block, fresh) == 0;
  });
  const bool is_over = two.wait_for(kSoon) == std::future_status::ready;
  on.let_go();
  stuck.join();
  CHECK(two.get());
  CHECK(is_over);
}

// Memory that another stream has freed is given out with an order to wait for that, which the full queue of
// the allocation's stream keeps.
TEST_CASE("stuck: an allocation that waits for a place in its stream's queue keeps no other from a free") {
  const int code = GENERATE(0, 999);
  INFO("the order to wait answers " << code);
  Stuck on;
  on.device.code = code;
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*on.runtime->allocate(MiB(4)));
  on.fake.hold(on.full);
  for (const DevicePtr at : blocks) REQUIRE(on.launch(at, on.full) == 0);
  REQUIRE(on.runtime->free_in(blocks[0], on.full).ok());
  on.device.fill_for_waits(on.other);
  auto one = std::async(std::launch::async, [&] { return *on.runtime->allocate_in(MiB(4), on.other); });
  on.device.is_stuck.get_future().wait();
  auto two = std::async(std::launch::async, [&] {
    return on.runtime->free_in(blocks[1], on.full).ok() && on.runtime->check() == nullptr;
  });
  const bool is_over = two.wait_for(kSoon) == std::future_status::ready;
  on.let_go();
  const DevicePtr given = one.get();
  CHECK(is_over);
  CHECK(two.get());
  CHECK(on.runtime->check() == nullptr);
  CHECK((given == blocks[0]) == (code == 0));
  // What could not be given out is there for the stream that freed it.
  if (code != 0) {
    const std::set<DevicePtr> again{*on.runtime->allocate_in(MiB(4), on.full),
                                    *on.runtime->allocate_in(MiB(4), on.full)};
    CHECK(again == std::set<DevicePtr>{blocks[0], blocks[1]});
  }
  on.fake.end_hold(on.full);
  CHECK(on.launch(given, on.other) == 0);
  CHECK(on.runtime->check() == nullptr);
}

// The oldest blocks are used by kernels that end only when the host says so, which it does after it has used
// others: these need room.
TEST_CASE("stuck: blocks in use that are to leave keep no others from leaving") {
  const char* const clean = GENERATE("1", "0");
  const bool is_touched = GENERATE(true, false);
  const int held = GENERATE(1, 6);  // the second: more than there are streams for copies
  INFO("TIDEPOOL_CLEAN=" << clean << ", " << held
                         << (is_touched ? ": to be copied" : ": in use in their memory's last life"));
  Stuck on(clean);
  std::vector<StreamHandle> streams;
  std::vector<DevicePtr> first;
  for (int i = 0; i < held; ++i) {
    streams.push_back(on.fake.create_program_stream(false));
    first.push_back(*on.runtime->allocate(MiB(2)));
    on.fake.hold(streams.back());
    REQUIRE(on.launch(first.back(), streams.back()) == 0);
    if (is_touched) continue;
    REQUIRE(on.runtime->free_in(first.back(), streams.back()).ok());
    first.back() = *on.runtime->allocate_in(MiB(2), streams.back());
  }
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(*on.runtime->allocate(MiB(2)));
  auto job = std::async(std::launch::async, [&] {
    int code = 0;
    for (int round = 0; round < 3; ++round) {
      for (const DevicePtr at : blocks) code = std::max(code, on.launch(at, on.other));
    }
    return code;
  });
  const bool is_over = job.wait_for(kSoon) == std::future_status::ready;
  for (const StreamHandle stream : streams) on.fake.end_hold(stream);
  CHECK(job.get() == 0);
  CHECK(is_over);
  for (const DevicePtr at : first) CHECK(on.launch(at, on.other) == 0);
  CHECK(on.runtime->check() == nullptr);
  CHECK(on.fake.errors().empty());
}

// It takes that long: nightly.
TEST_CASE("stuck: who waits for 10 s for work that holds all memory says so, and goes on when it ends") {
  if (std::getenv("TP_TEST_SWEEP") == nullptr) return;
  Stuck on;
  const std::uint64_t said = times_reported(Msg::TP2003);
  const DevicePtr used = *on.runtime->allocate(MiB(12));
  const DevicePtr wanted = *on.runtime->allocate(MiB(12));
  on.fake.hold(on.full);
  REQUIRE(on.launch(used, on.full) == 0);
  auto job = std::async(std::launch::async, [&] { return on.launch(wanted, on.other); });
  CHECK(job.wait_for(std::chrono::seconds(11)) == std::future_status::timeout);
  CHECK(times_reported(Msg::TP2003) == said + 1);
  on.fake.end_hold(on.full);
  CHECK(job.get() == 0);
}

}  // namespace tidepool::runtime
