// What goes wrong at the edges: stale words in arguments, streams that end badly, threads that are stuck in
// the driver, failures that do not pass (vLLM PR#45565). None may lose memory, hang, or make answers up.

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

/// A launch with no effect on contents.
int launch_on(Program& program, const std::vector<DevicePtr>& blocks, StreamHandle stream) {
  std::vector<BlockId> set;
  for (const DevicePtr at : blocks) set.push_back(program.runtime().find(at.address()));
  return program.runtime().launch(
      set, stream, "kernel", [&] { return program.device().submit(stream, "kernel", [](auto&) {}).code(); });
}

/// Far below the patience of the slow path (60 s), far above what any of this takes.
constexpr std::int64_t kSoon = 5'000'000'000;

class Stopwatch {
 public:
  [[nodiscard]] std::int64_t ns() const { return (monotonic_now() - start_).count(); }

 private:
  Nanos start_ = monotonic_now();
};

/// A device that lets something happen in the middle of a copy, where another thread could run.
class Interrupted final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void()> at_copy_out;
  std::function<void()> at_copy_in;
  std::function<void()> at_create;
  std::function<bool()> is_late;  ///< true: no event has passed yet

  Status query(EventHandle event) noexcept override {
    return is_late && is_late() ? kNotReady : ForwardingDevice::query(event);
  }
  DeviceResult<PhysicalHandle> create(Bytes size) noexcept override {
    if (auto happening = std::exchange(at_create, {})) happening();
    return ForwardingDevice::create(size);
  }
  Status copy_to_host(void* host, DevicePtr at, Bytes size, StreamHandle stream) noexcept override {
    if (auto happening = std::exchange(at_copy_out, {})) happening();
    return ForwardingDevice::copy_to_host(host, at, size, stream);
  }
  Status copy_to_device(DevicePtr at, const void* host, Bytes size, StreamHandle stream) noexcept override {
    if (auto happening = std::exchange(at_copy_in, {})) happening();
    return ForwardingDevice::copy_to_device(at, host, size, stream);
  }
};

std::unique_ptr<Runtime> runtime_on(Device& device) {
  Options options = default_options();
  REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
  const auto created = Runtime::create(device, options, GiB(4));
  REQUIRE(created.ok());
  return std::unique_ptr<Runtime>(*created);
}

}  // namespace

TEST_CASE("edges: stale words on many streams do not lose a freed block's memory") {
  Program program({.streams = 8});
  const DevicePtr freed = program.allocate(MiB(8));
  REQUIRE(program.touch({freed}, 0).ok());
  REQUIRE(program.free(freed).ok());
  for (std::size_t i = 0; i < 6; ++i) REQUIRE(launch_on(program, {freed}, program.stream(i)) == 0);
  const DevicePtr next = program.allocate(MiB(12));
  const Stopwatch watch;
  CHECK(program.touch({next}, 0).ok());
  CHECK(watch.ns() < kSoon);
}

TEST_CASE("edges: a block freed while it comes in, used by many streams, gives its memory back") {
  Program program({.streams = 8});
  const DevicePtr a = program.allocate(MiB(8));
  const DevicePtr b = program.allocate(MiB(12));
  for (const DevicePtr block : {a, b, a}) {
    REQUIRE(program.touch({block}, 0).ok());
    if (block == b) program.synchronize();
  }
  for (std::size_t i = 1; i < 7; ++i) REQUIRE(launch_on(program, {a}, program.stream(i)) == 0);
  REQUIRE(program.free(a).ok());
  const Stopwatch watch;
  CHECK(program.touch({b}, 0).ok());
  CHECK(watch.ns() < kSoon);
}

TEST_CASE("edges: a stream whose last mark fails keeps nothing on the device for ever") {
  for (const char* call : {"record", "create_event"}) {
    for (const std::uint64_t times : {1u, 3u}) {
      INFO(call << " fails " << times << " times");
      Program program({});
      const DevicePtr a = program.allocate(MiB(8));
      REQUIRE(launch_on(program, {a}, program.stream(2)) == 0);
      program.device().faults().add({.function = call, .count = times, .code = 2});
      program.runtime().stream_destroyed(program.stream(2));
      program.device().faults().clear();
      const DevicePtr all = program.allocate(MiB(16));
      CHECK(program.touch({all}, 0).ok());
      CHECK(program.touch({a}, 1).ok());
    }
  }
}

TEST_CASE("edges: a refused request does not count against later, smaller ones") {
  Program program({.host = "32MiB"});
  for (int i = 0; i < 4; ++i) (void)program.allocate(MiB(4));
  CHECK(program.runtime().allocate(MiB(16)).error() == kOutOfMemory);
  CHECK(program.runtime().allocate(MiB(4)).ok());
}

TEST_CASE("edges: after a large block is freed, its size no longer counts") {
  Program program({.host = "24MiB"});
  const DevicePtr large = program.allocate(MiB(12));
  REQUIRE(program.free(large).ok());
  for (int i = 0; i < 8; ++i) (void)program.allocate(MiB(4));
}

TEST_CASE("edges: the memory of an emptied slab is a block like any other") {
  Program program({});
  const Bytes small(1 << 20);
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(program.allocate(small));
  for (const DevicePtr at : blocks) REQUIRE(program.free(at).ok());
  const DevicePtr large = program.allocate(small + Bytes(128 << 10));
  CHECK(program.touch({large}, 0).ok());
  CHECK(program.runtime().describe(large).size == small + Bytes(128 << 10));
  CHECK(program.free(large).ok());
  // And back: no slab takes a block for one of its own.
  for (int i = 0; i < 3; ++i) (void)program.allocate(small);
}

TEST_CASE("edges: what must stay is refused where it would leave no room for what moves") {
  Program program({});
  SECTION("small allocations first") {
    for (int i = 0; i < 12; ++i) (void)program.allocate(MiB(1));  // six slabs
    CHECK(program.runtime().allocate(MiB(8)).error() == kOutOfMemory);
    const auto fits = program.runtime().allocate(MiB(4));
    REQUIRE(fits.ok());
    CHECK(launch_on(program, {*fits}, program.stream(0)) == 0);
  }
  SECTION("the block first") {
    const DevicePtr block = program.allocate(MiB(8));
    std::size_t small = 0;
    while (program.runtime().allocate(MiB(1)).ok()) ++small;
    CHECK(small == 8);
    CHECK(launch_on(program, {block}, program.stream(0)) == 0);
  }
}

TEST_CASE("edges: blocks freed since they were listed are no reason to refuse to keep the others") {
  Program program({.budget = "24MiB"});
  const DevicePtr mine = program.allocate(MiB(4));
  const DevicePtr theirs = program.allocate(MiB(4));  // never touched: its address goes with the free
  REQUIRE(program.touch({mine}, 0).ok());
  const std::vector<BlockId> listed = program.runtime().live_blocks();
  REQUIRE(program.free(theirs).ok());
  CHECK(program.runtime().keep(listed, "work").ok());
  CHECK(program.runtime().capacity() == MiB(24));
  REQUIRE(program.free(mine).ok());
  const DevicePtr whole = program.allocate(MiB(24));  // nothing is counted as kept any more
  CHECK(program.touch({whole}, 0).ok());
  program.synchronize();
  program.check();
}

TEST_CASE("edges: an unmap that never works is out of memory, soon and without a storm of calls") {
  Program program({});
  const DevicePtr a = program.allocate(MiB(12));
  REQUIRE(program.touch({a}, 0).ok());
  REQUIRE(program.free(a).ok());
  const DevicePtr b = program.allocate(MiB(8));
  const std::uint64_t before = program.device().calls("unmap");
  program.device().faults().add({.function = "unmap", .count = FaultRule::kAll, .code = 999});
  const Stopwatch watch;
  CHECK_FALSE(program.touch({b}, 0).ok());
  CHECK(watch.ns() < kSoon);
  CHECK(program.device().calls("unmap") - before < 100);
  program.device().faults().clear();
  CHECK(program.touch({b}, 0).ok());
  program.check();
}

TEST_CASE("edges: any call failing for a while is a clean error, soon, and over when it is over",
          "[one-thread]") {
  for (const char* call :
       {"create", "destroy", "map", "unmap", "set_access", "create_event", "record", "wait", "query",
        "copy_to_host", "copy_to_device", "register_host", "synchronize"}) {
    INFO(call);
    Program program({.seed = 5});
    std::vector<DevicePtr> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(program.allocate(MiB(4)));
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
    REQUIRE(program.free(blocks.back()).ok());
    blocks.pop_back();
    program.synchronize();
    program.device().faults().add({.function = call, .count = 40, .code = 999});
    const Stopwatch watch;
    for (int round = 0; round < 4; ++round) {
      for (const DevicePtr block : blocks) (void)program.touch({block}, 0);
    }
    CHECK(watch.ns() < kSoon);
    program.device().faults().clear();
    program.synchronize();
    for (int round = 0; round < 2; ++round) {
      for (const DevicePtr block : blocks) {
        CHECK(program.touch({block}, 0).ok());
        program.synchronize();
      }
    }
    program.check();
  }
}

TEST_CASE("edges: a thread stuck inside a launch does not keep others from moving what it does not touch") {
  Program program({});
  const DevicePtr a = program.allocate(MiB(4));
  const DevicePtr b = program.allocate(MiB(12));
  const DevicePtr c = program.allocate(MiB(12));
  REQUIRE(program.touch({a}, 0).ok());
  REQUIRE(program.touch({b}, 0).ok());
  program.synchronize();
  std::promise<void> inside;
  std::promise<void> go_on;
  std::thread stuck([&] {
    const BlockId set[] = {program.runtime().find(a.address())};
    (void)program.runtime().launch(set, program.stream(1), "stuck", [&] {
      inside.set_value();
      go_on.get_future().wait();
      return 0;
    });
  });
  inside.get_future().wait();
  const Stopwatch watch;
  const Status status = program.touch({c}, 0);  // only b has to go
  const std::int64_t took = watch.ns();
  go_on.set_value();
  stuck.join();
  CHECK(status.ok());
  CHECK(took < kSoon);
}

TEST_CASE("edges: what the slow path brought stays until the launch is enqueued, whoever wants its place") {
  Program program({});
  const DevicePtr a = program.allocate(MiB(12));
  const DevicePtr b = program.allocate(MiB(12));
  REQUIRE(program.touch({b}, 0).ok());
  std::thread other;
  std::atomic<bool> other_ran{false};
  const BlockId set[] = {program.runtime().find(a.address())};
  const int code = program.runtime().launch(set, program.stream(0), "kernel", [&] {
    other = std::thread([&] { other_ran = launch_on(program, {b}, program.stream(1)) == 0; });
    // Without a pin the other thread has taken the place of `a` long before this is over.
    constexpr auto kLongEnough = std::chrono::milliseconds(100);
    std::this_thread::sleep_for(kLongEnough);
    CHECK_FALSE(other_ran);
    return program.device()
        .submit(program.stream(0), "kernel",
                [a](auto& access) {
                  const std::uint64_t word = 1;
                  access.write(a, &word, Bytes(8));
                })
        .code();
  });
  other.join();
  CHECK(code == 0);
  CHECK(other_ran);
  program.synchronize();
  program.check();
}

TEST_CASE("edges: a stale word whose block id is given to a new block during the slow path") {
  fakes::FakeDevice fake({MiB(256), MiB(2), 1});
  Interrupted device(fake);
  const std::unique_ptr<Runtime> runtime = runtime_on(device);
  const StreamHandle stream = fake.create_program_stream(false);
  const auto launch = [&](const std::vector<BlockId>& set) {
    return runtime->launch(set, stream, "kernel",
                           [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); });
  };
  const DevicePtr stale = *runtime->allocate(MiB(4));  // another thread's, never touched
  const DevicePtr wanted = *runtime->allocate(MiB(12));
  const DevicePtr other = *runtime->allocate(MiB(12));
  REQUIRE(launch({runtime->find(wanted.address())}) == 0);
  REQUIRE(launch({runtime->find(other.address())}) == 0);
  device.at_copy_out = [&] { REQUIRE(runtime->free(stale).ok()); };
  device.at_copy_in = [&] { REQUIRE(runtime->allocate(MiB(4)).ok()); };
  CHECK(launch({runtime->find(stale.address()), runtime->find(wanted.address())}) == 0);
  fake.run_all();
}

TEST_CASE("edges: a block freed while it is being kept leaves nothing kept behind") {
  fakes::FakeDevice fake({MiB(256), MiB(2), 1});
  Interrupted device(fake);
  const std::unique_ptr<Runtime> runtime = runtime_on(device);
  const StreamHandle stream = fake.create_program_stream(false);
  const auto launch = [&](DevicePtr at) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream, "kernel",
                           [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); });
  };
  const DevicePtr stays = *runtime->allocate(MiB(8));
  const DevicePtr other = *runtime->allocate(MiB(10));
  REQUIRE(launch(stays) == 0);
  REQUIRE(launch(other) == 0);  // stays leaves
  REQUIRE(runtime->free(other).ok());
  const DevicePtr freed = *runtime->allocate(MiB(4));
  const DevicePtr big = *runtime->allocate(MiB(8));
  REQUIRE(launch(freed) == 0);
  const BlockId both[] = {runtime->find(freed.address()), runtime->find(stays.address())};
  // While keep() waits for the copy in, another thread frees the one block and needs its memory; then it
  // allocates, and would be given the id that came free.
  std::thread meanwhile;
  std::atomic<bool> is_done{false};
  DevicePtr late;
  device.is_late = [&] {
    if (!meanwhile.joinable()) {
      meanwhile = std::thread([&] {
        if (runtime->free(freed).ok() && launch(big) == 0) late = *runtime->allocate(MiB(2));
        is_done = true;
      });
    }
    return !is_done;
  };
  CHECK(runtime->keep(both, "test").ok());
  device.is_late = {};
  REQUIRE(meanwhile.joinable());
  meanwhile.join();
  REQUIRE(late != DevicePtr());
  CHECK_FALSE(runtime->arena().block(runtime->find(late.address())).kept);
  CHECK(runtime->arena().block(runtime->find(stays.address())).kept);
  fake.run_all();
  CHECK(runtime->check() == nullptr);
}

TEST_CASE("edges: a block freed while its copy in is enqueued stays freed") {
  fakes::FakeDevice fake({MiB(256), MiB(2), 1});
  Interrupted device(fake);
  const std::unique_ptr<Runtime> runtime = runtime_on(device);
  const StreamHandle stream = fake.create_program_stream(false);
  const auto launch = [&](DevicePtr at) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream, "kernel",
                           [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); });
  };
  const DevicePtr a = *runtime->allocate(MiB(12));
  const DevicePtr b = *runtime->allocate(MiB(12));
  REQUIRE(launch(a) == 0);
  REQUIRE(launch(b) == 0);
  // The free waits for the transition to end, and happens as soon as it has.
  std::thread freeing;
  std::atomic<bool> freed{false};
  device.at_copy_in = [&] { freeing = std::thread([&] { freed = runtime->free(a).ok(); }); };
  CHECK(launch(a) == 0);
  freeing.join();
  CHECK(freed);
  fake.run_all();
  CHECK(runtime->free(a) == kInvalidValue);
  CHECK(runtime->describe(a).size == Bytes());
  const char* broken = runtime->check();
  INFO((broken != nullptr ? broken : ""));
  CHECK(broken == nullptr);
}

TEST_CASE("edges: room for one more slab is given to one thread") {
  fakes::FakeDevice fake({MiB(256), MiB(2), 1});
  Interrupted device(fake);
  const std::unique_ptr<Runtime> runtime = runtime_on(device);
  const StreamHandle stream = fake.create_program_stream(false);
  const StreamHandle other_stream = fake.create_program_stream(false);
  // The largest block leaves room for one slab in a budget of 16 MiB; the other thread shares it or gets
  // nothing.
  const DevicePtr large = *runtime->allocate(MiB(14));
  std::thread other;
  // The first has found room, and is about to take it.
  device.at_create = [&] {
    other = std::thread([&] { (void)runtime->allocate_in(MiB(1), other_stream); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  CHECK(runtime->allocate_in(MiB(1), stream).ok());
  REQUIRE(other.joinable());
  other.join();
  const BlockId set[] = {runtime->find(large.address())};
  CHECK(runtime->launch(set, stream, "kernel",
                        [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); }) == 0);
  fake.run_all();
  CHECK(runtime->check() == nullptr);
}

}  // namespace tidepool::runtime
