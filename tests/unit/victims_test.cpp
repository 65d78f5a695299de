// Blocks that cannot leave, for now or at all, are no reason to refuse work while others can.

#include <cstdint>

#include "allocator/support/message.h"
#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

// cuda.h: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, what a wait for the device answers during any capture.
constexpr int kCaptureUnsupported = 900;

/// Far below the patience of the slow path (60 s), far above what any of this takes.
constexpr Nanos kSoon = seconds(5);

/// More streams than a block remembers use it at the same time: it is idle only once the device is.
void use_widely(Program& program, DevicePtr at) {
  const std::vector<BlockId> set{program.runtime().find(at.address())};
  for (std::size_t i = 0; i < 6; ++i) program.device().hold(program.stream(i));
  for (std::size_t i = 0; i < 6; ++i) {
    const StreamHandle stream = program.stream(i);
    REQUIRE(program.runtime().launch(set, stream, "kernel", [&] {
      return program.device().submit(stream, "kernel", [](auto&) {}).code();
    }) == 0);
  }
  for (std::size_t i = 0; i < 6; ++i) program.device().end_hold(program.stream(i));
  program.synchronize();
}

/// From here on it is as while any stream of the process is captured.
void begin_capture(Program& program) {
  program.runtime().capture_begins();
  program.device().faults().add(
      {.function = "synchronize", .count = FaultRule::kAll, .code = kCaptureUnsupported});
}

/// A device that copies nothing from one range.
class Reluctant final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  DevicePtr refused;
  int code = 1;
  int refusals = 0;

  Status copy_to_host(void* host, DevicePtr at, Bytes size, StreamHandle stream) noexcept override {
    if (at != refused) return ForwardingDevice::copy_to_host(host, at, size, stream);
    ++refusals;
    return Status(code);
  }
};

class OnReluctant {
 public:
  OnReluctant() {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    stream_ = fake.create_program_stream(false);
  }
  int launch(DevicePtr at) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream_, "kernel",
                           [&] { return fake.submit_fill(stream_, at, MiB(4), 1).code(); });
  }

  fakes::FakeDevice fake{{MiB(256), MiB(2), 1}};
  Reluctant device{fake};
  std::unique_ptr<Runtime> runtime;

 private:
  StreamHandle stream_;
};

}  // namespace

TEST_CASE("victims: one that only a wait for the device would free, during a capture, is no refusal") {
  Program program({.budget = "16MiB", .streams = 8});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(program.allocate(MiB(4)));
  for (const DevicePtr at : blocks) REQUIRE(program.touch({at}, 0).ok());
  program.synchronize();
  SECTION("others can leave") {
    use_widely(program, blocks[0]);
    for (std::size_t i = 1; i < 4; ++i) REQUIRE(program.look({blocks[i]}, 7).ok());
  }
  SECTION("all are like that") {
    for (const DevicePtr at : blocks) use_widely(program, at);
  }
  SECTION("it is freed memory") {
    REQUIRE(program.free(blocks[3]).ok());
    const DevicePtr again = program.allocate(MiB(4));
    use_widely(program, again);
    program.free_in(again, 7);
  }
  program.synchronize();
  begin_capture(program);
  const DevicePtr fifth = program.allocate(MiB(4));
  const Nanos start = monotonic_now();
  CHECK(program.touch({fifth}, 7).code() == 0);
  CHECK(monotonic_now() - start < kSoon);
  program.device().faults().clear();
  program.synchronize();
  program.check();
}

TEST_CASE("victims: a capture under which nothing can be asked is out of memory, not the device's error") {
  Program program({.budget = "16MiB", .streams = 8});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(program.allocate(MiB(4)));
  for (const DevicePtr at : blocks) {
    REQUIRE(program.touch({at}, 0).ok());
    program.synchronize();
    use_widely(program, at);
  }
  const DevicePtr fifth = program.allocate(MiB(4));
  begin_capture(program);
  program.device().hold(program.stream(1));  // its ticket is not known to have passed, nor can it be asked
  REQUIRE(program.look({blocks[0]}, 1).ok());
  program.device().faults().add(
      {.function = "record", .count = FaultRule::kAll, .code = kCaptureUnsupported});
  const Nanos start = monotonic_now();
  CHECK(program.touch({fifth}, 7) == kOutOfMemory);
  CHECK(monotonic_now() - start < kSoon);
  program.device().faults().clear();
  program.device().end_hold(program.stream(1));
  program.synchronize();
  CHECK(program.touch({fifth}, 7).ok());
  program.synchronize();
  program.check();
}

TEST_CASE("victims: where the driver takes no memory back, a lower budget moves no more than it must") {
  Program program({.budget = "64MiB", .check = "cheap", .clean = "0"});  // full copies more
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 14; ++i) blocks.push_back(program.allocate(MiB(4)));
  for (const DevicePtr at : blocks) REQUIRE(program.touch({at}, 0).ok());
  program.synchronize();
  const auto lower = [&](Bytes budget, std::uint64_t failures) {
    program.device().faults().add({.function = "destroy", .count = failures, .code = 999});
    const Bytes before = program.device().copied_to_host();
    (void)program.runtime().set_budget(Amount::bytes(budget));
    program.device().faults().clear();
    return program.device().copied_to_host() - before;
  };
  CHECK(lower(MiB(54), FaultRule::kAll) <= MiB(4));
  CHECK(program.device().in_use() == MiB(56));
  CHECK(lower(MiB(48), 1) <= MiB(8));
  CHECK(program.device().in_use() <= MiB(48));
  program.synchronize();
  program.check();
}

TEST_CASE("victims: one whose copy always fails stays, and the others go") {
  OnReluctant on;
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*on.runtime->allocate(MiB(4)));
  for (const DevicePtr at : blocks) REQUIRE(on.launch(at) == 0);
  on.device.refused = blocks[0];
  on.device.code = GENERATE(1, 2, kCaptureUnsupported);
  for (int round = 0; round < 8; ++round) {
    const DevicePtr one = *on.runtime->allocate(MiB(4));
    CHECK(on.launch(one) == 0);
    on.fake.run_all();
    CHECK(on.runtime->free(one).ok());
  }
  CHECK(on.device.refusals > 0);
  CHECK(on.device.refusals <= 8);  // not again and again in one turn
  CHECK(on.launch(blocks[0]) == 0);
  const char* broken = on.runtime->check();
  INFO((broken != nullptr ? broken : ""));
  CHECK(broken == nullptr);
  on.fake.run_all();
}

TEST_CASE("victims: where the only one cannot be copied the launch says what the driver said") {
  OnReluctant on;
  const DevicePtr only = *on.runtime->allocate(MiB(12));
  REQUIRE(on.launch(only) == 0);
  on.device.refused = only;
  on.device.code = 1;
  const DevicePtr next = *on.runtime->allocate(MiB(12));
  const Nanos start = monotonic_now();
  CHECK(on.launch(next) == 1);
  CHECK(on.device.refusals == 3);
  on.device.code = kCaptureUnsupported;
  CHECK(on.launch(next) == kOutOfMemory.code());
  CHECK(monotonic_now() - start < kSoon);
  on.device.refused = DevicePtr();
  CHECK(on.launch(next) == 0);
  on.fake.run_all();
}

TEST_CASE("victims: freed memory gives its addresses up, and what has none is told so") {
  Program program({.budget = "64MiB", .host = "4GiB"});
  const std::uint64_t blamed = times_reported(Msg::TP2005);
  const std::uint64_t told = times_reported(Msg::TP2011);
  const Bytes addresses = program.runtime().arena().size();
  const DevicePtr freed = program.allocate(MiB(40));
  REQUIRE(program.touch({freed}, 0).ok());
  program.free_in(freed, 0);  // and the kernel has not run
  std::vector<DevicePtr> blocks;
  for (;;) {
    const auto at = program.runtime().allocate(MiB(2));
    if (!at.ok()) {
      CHECK(at.error() == kOutOfMemory);
      break;
    }
    blocks.push_back(*at);
  }
  // Each takes its size and as much between it and the next; one chunk is in front of all.
  CHECK(blocks.size() == (addresses - MiB(2)) / MiB(4));
  CHECK(times_reported(Msg::TP2011) == told + 1);
  CHECK(times_reported(Msg::TP2005) == blamed);
  REQUIRE(program.runtime().free(blocks.back()).ok());
  CHECK(program.runtime().allocate(MiB(2)).ok());
  program.check();
}

TEST_CASE("victims: a launch that waits for a copy out is counted, once, also where that waits for work") {
  const auto now = [](Metric metric) { return StatsPage::instance().get(metric); };
  for (const bool comes_after_work : {false, true}) {
    INFO(comes_after_work);
    Program program({.budget = "16MiB"});
    const DevicePtr large = program.allocate(MiB(16));
    const DevicePtr other = program.allocate(MiB(16));
    for (int i = 0; i < (comes_after_work ? 50 : 1); ++i) REQUIRE(program.touch({large}, 0).ok());
    if (!comes_after_work) program.device().run_all();
    const std::uint64_t waiters = now(Metric::copy_out_waiters_total);
    const std::uint64_t waits = now(Metric::copy_out_waits_total);
    REQUIRE(program.touch({other}, 1).ok());
    CHECK(now(Metric::copy_out_waiters_total) - waiters == 1);
    CHECK(now(Metric::copy_out_waits_total) - waits == 1);
    REQUIRE(program.touch({other}, 1).ok());  // it is there
    CHECK(now(Metric::copy_out_waiters_total) - waiters == 1);
    program.device().run_all();
    program.check();
  }
}

}  // namespace tidepool::runtime
