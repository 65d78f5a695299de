// A thread that is stuck in the driver with a full queue keeps nobody from what that queue waits for.

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr auto kSoon = std::chrono::seconds(5);

/// A device in which the next record in one stream does not return until it is let go.
class FullQueue final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::promise<void> is_stuck;
  std::promise<void> may_go;

  void fill(StreamHandle stream) {
    stream_ = stream;
    is_armed_ = true;
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
};

class Stuck {
 public:
  Stuck() {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
    const auto created = Runtime::create(device_, options, GiB(4));
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
    device_.fill(full);
    std::thread stuck([this, block] {
      for (int i = 0; i < 16; ++i) (void)launch(block, full);
    });
    device_.is_stuck.get_future().wait();
    return stuck;
  }
  void let_go() { device_.may_go.set_value(); }

  fakes::FakeDevice fake{{MiB(256), MiB(2), 1}};

 private:
  FullQueue device_{fake};

 public:
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

}  // namespace tidepool::runtime
