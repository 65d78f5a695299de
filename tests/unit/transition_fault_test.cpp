// Every driver call that a transition makes may fail: the job goes on with the right bytes, or gets a clean
// error and can still go on after it.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "allocator/support/message.h"
#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

/// Calls that a program whose memory moves causes. One that fails, once, costs nobody anything.
constexpr const char* kCalls[] = {
    "create",       "map",     "unmap",           "set_access",   "create_event",   "record",
    "wait",         "query",   "copy_to_host",    "prepare_hash", "copy_to_device", "register_host",
    "hash_to_host", "destroy", "unregister_host", "destroy_event"};

constexpr std::size_t kBlocks = 6;

/// All places where a call is made, and many pairs of failures: nightly.
bool is_sweep() {
  return std::getenv("TP_TEST_SWEEP") != nullptr;
}

struct Outcome {
  int refused = 0;        ///< launches
  int refused_with = 0;   ///< what the last of them was answered
  int refused_frees = 0;  ///< that succeeded when asked again
};

/// Looks at and writes more than the device has room for, orders some of it by streams alone, and changes the
/// budget, so that all kinds of transitions come about.
Outcome run_program(Program& program) {
  Outcome outcome;
  (void)program.allocate(KiB(4));  // hashes find their memory beside it
  std::vector<DevicePtr> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i)
    blocks.push_back(program.allocate(MiB(4) + MiB(2) * static_cast<unsigned>(i % 2)));
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::vector<DevicePtr> set{blocks[i], blocks[(i + 3) % kBlocks]};
      const Status status = round % 2 == 0 ? program.touch(set, i % 2) : program.look(set, i % 2);
      if (!status.ok()) {
        ++outcome.refused;
        outcome.refused_with = status.code();
      }
      program.device().run_all();
    }
    (void)program.runtime().set_budget(Amount::bytes(MiB(round % 2 == 0 ? 18 : 20)));
  }
  for (const DevicePtr block : blocks) {
    Status freed = program.free(block);
    for (int again = 0; !freed.ok() && again < 3; ++again, freed = program.free(block))
      ++outcome.refused_frees;
    REQUIRE(freed.ok());
  }
  return outcome;
}

/// A program and what it has called so far, which no fault hits.
struct Run {
  Program program;
  explicit Run(const char* check) : program({.budget = "20MiB", .seed = 5, .check = check}) {}

  void fail(const std::string& call, std::uint64_t nth, std::uint64_t count, int code) {
    program.device().faults().add({.function = call, .after = nth - 1, .count = count, .code = code});
  }
};

/// How often the program makes the call where none fails.
std::size_t calls_of(const char* call, const char* check) {
  Run run(check);
  const std::size_t before = run.program.device().calls(call);
  const Outcome outcome = run_program(run.program);
  REQUIRE(outcome.refused == 0);
  REQUIRE(outcome.refused_frees == 0);
  return run.program.device().calls(call) - before;
}

std::size_t step_through(std::size_t total) {
  return is_sweep() ? 1 : 1 + total / 3;
}

/// A device on which one call fails wherever it names memory of one range.
class OneBadRange final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  DevicePtr from;
  Bytes size;  ///< zero: all is well
  std::string call;

  Status map(DevicePtr at, Bytes bytes, PhysicalHandle handle) noexcept override {
    return is_bad("map", at) ? Status(999) : ForwardingDevice::map(at, bytes, handle);
  }
  Status unmap(DevicePtr at, Bytes bytes) noexcept override {
    return is_bad("unmap", at) ? Status(999) : ForwardingDevice::unmap(at, bytes);
  }
  Status set_access(DevicePtr at, Bytes bytes) noexcept override {
    return is_bad("set_access", at) ? Status(999) : ForwardingDevice::set_access(at, bytes);
  }
  Status copy_to_host(void* host, DevicePtr at, Bytes bytes, StreamHandle stream) noexcept override {
    return is_bad("copy_to_host", at) ? Status(999) : ForwardingDevice::copy_to_host(host, at, bytes, stream);
  }
  Status copy_to_device(DevicePtr at, const void* host, Bytes bytes, StreamHandle stream) noexcept override {
    return is_bad("copy_to_device", at) ? Status(999)
                                        : ForwardingDevice::copy_to_device(at, host, bytes, stream);
  }
  Status hash_to_host(void* host, DevicePtr at, Bytes bytes, std::uint64_t number,
                      StreamHandle stream) noexcept override {
    return is_bad("hash_to_host", at) ? Status(999)
                                      : ForwardingDevice::hash_to_host(host, at, bytes, number, stream);
  }

 private:
  bool is_bad(const char* name, DevicePtr at) const {
    return name == call && at.address() - from.address() < size.count();
  }
};

/// Blocks on such a device, each filled with a byte of its own.
class OnBadRange {
 public:
  static constexpr Bytes kSize = MiB(4);

  OnBadRange() {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "18MiB").ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    REQUIRE(runtime->allocate(KiB(4)).ok());
    stream_ = fake.create_program_stream(false);
    for (std::uint8_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(*runtime->allocate(kSize));
      REQUIRE(launch(i, [&] { return fake.submit_fill(stream_, blocks[i], kSize, i).code(); }) == 0);
    }
  }

  /// Launches a kernel that looks whether the block has what it had.
  int look(std::size_t i) {
    return launch(i, [&] {
      return fake
          .submit(stream_, "look",
                  [this, i](fakes::FakeDevice::Access& access) {
                    for (const DevicePtr at : {blocks[i], blocks[i] + (kSize - Bytes(1))}) {
                      std::uint8_t seen = 0xff;
                      access.read(at, &seen, Bytes(1));
                      wrong += seen != i;
                    }
                  })
          .code();
    });
  }

  fakes::FakeDevice fake{{MiB(256), MiB(2), 1}};
  OneBadRange device{fake};
  std::unique_ptr<Runtime> runtime;
  std::vector<DevicePtr> blocks;
  int wrong = 0;

 private:
  template <class Enqueue>
  int launch(std::size_t i, Enqueue&& enqueue) {
    const BlockId set[] = {runtime->find(blocks[i].address())};
    const int code = runtime->launch(set, stream_, "kernel", enqueue);
    fake.run_all();
    return code;
  }

  StreamHandle stream_;
};

}  // namespace

// vLLM PR#12981, PR#34600, #21336 (out of memory while memory came back), pytorch#188008 (a mapping that
// failed half-way).
TEST_CASE("transition: one failed driver call, any call, any time, is survived with the right bytes") {
  const char* const check = GENERATE("full", "unmap");
  INFO("TIDEPOOL_CHECK=" << check);
  for (const char* call : kCalls) {
    const std::size_t total = calls_of(call, check);
    for (std::size_t nth = 1; nth <= total; nth += step_through(total)) {
      const int code = nth % 2 == 0 ? 999 : 2;
      INFO(call << " fails with " << code << " at call " << nth << " of " << total);
      Run run(check);
      run.fail(call, nth, 1, code);
      const Outcome outcome = run_program(run.program);
      CHECK(outcome.refused == 0);
      CHECK(outcome.refused_frees == 0);
      run.program.check();
    }
  }
}

// Where the second try is the last one, the launch is answered with what the driver said, and can be made
// again. Memory that the driver would not unmap can still be had.
TEST_CASE("transition: a driver call that fails twice in a row is survived, or answered as the driver did") {
  const std::vector<std::string> answered = {"record", "query"};
  for (const char* call : kCalls) {
    const std::size_t total = calls_of(call, "full");
    for (std::size_t nth = 1; nth <= total; nth += step_through(total)) {
      INFO(call << " fails at calls " << nth << " and " << nth + 1 << " of " << total);
      Run run("full");
      run.fail(call, nth, 2, 999);
      const std::uint64_t blamed = times_reported(Msg::TP2005);
      const Outcome outcome = run_program(run.program);
      const bool is_answered = std::find(answered.begin(), answered.end(), call) != answered.end();
      if (!is_answered) CHECK(outcome.refused == 0);
      if (outcome.refused != 0) CHECK(outcome.refused_with == 999);
      CHECK(outcome.refused_frees == 0);
      CHECK(times_reported(Msg::TP2005) == blamed);
      run.program.check();
    }
  }
}

TEST_CASE("transition: a failed wait for the device is the answer to the free, which may be asked again") {
  const std::size_t total = calls_of("synchronize", "full");
  REQUIRE(total >= kBlocks);
  for (std::size_t nth = 1; nth <= total; ++nth) {
    INFO("synchronize fails at call " << nth << " of " << total);
    Run run("full");
    run.fail("synchronize", nth, 1, 2);
    const Outcome outcome = run_program(run.program);
    CHECK(outcome.refused == 0);
    CHECK(outcome.refused_frees == 1);
    run.program.check();
  }
}

TEST_CASE("transition: a call that fails before there is anything to manage is answered, and undone") {
  for (const char* call : {"reserve", "create_stream", "create_event", "release_addresses"}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      INFO(call << " fails at call " << nth);
      fakes::FakeDevice device({MiB(256), MiB(2), 1});
      device.faults().add({.function = call, .after = nth - 1, .code = 999});
      int refused = 0;
      for (int attempt = 1; attempt <= 2; ++attempt) {
        const auto created = Runtime::create(device, default_options(), GiB(4));
        if (!created.ok()) {
          ++refused;
          CHECK(created.error().code() == 999);
          continue;
        }
        const std::unique_ptr<Runtime> runtime(*created);
        const auto at = runtime->allocate(MiB(4));
        REQUIRE(at.ok());
        CHECK(runtime->free(*at).ok());
      }
      CHECK(refused <= 1);
      CHECK(device.errors().empty());
      CHECK(device.in_use() == Bytes());
    }
  }
}

// The second may come while the first is being undone. What fails twice in a row may be refused, but costs no
// byte.
TEST_CASE("transition: two failed driver calls are survived as one is, and two in a row cost no byte") {
  std::vector<std::pair<const char*, std::size_t>> totals;
  for (const char* call : kCalls) {
    if (const std::size_t total = calls_of(call, "full"); total != 0) totals.emplace_back(call, total);
  }
  const int rounds = is_sweep() ? 2000 : 32;
  for (int seed = 1; seed <= rounds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const std::uint64_t in_a_row = seed % 4 == 0 ? 2 : 1;
    Run run("full");
    std::string plan;
    for (int i = 0; i < 2; ++i) {
      const auto& [call, total] = totals[random() % totals.size()];
      const std::size_t nth = 1 + random() % total;
      run.fail(call, nth, in_a_row, random() % 2 == 0 ? 2 : 999);
      plan += std::string(call) + " " + std::to_string(nth) + ", ";
    }
    INFO("seed " << seed << ": " << plan << in_a_row << " in a row");
    const Outcome outcome = run_program(run.program);
    if (in_a_row == 1) CHECK(outcome.refused == 0);
    CHECK(outcome.refused_frees == 0);
    run.program.check();
  }
}

// The program may live on, after a reset of its device.
TEST_CASE("transition: calls that fail three times at the end leave no memory behind") {
  for (const char* call : {"unmap", "destroy"}) {
    INFO(call);
    Program program(Program::Config{});
    const DevicePtr block = program.allocate(MiB(4));
    REQUIRE(program.touch({block}, 0).ok());
    const std::string plan = std::string(call) + " count=3 return=999";
    REQUIRE(program.device().faults().add_text(plan).empty());
  }
}

TEST_CASE("transition: memory that one call always fails for keeps no other from moving, nor its own bytes") {
  for (const char* call : {"map", "unmap", "set_access", "copy_to_host", "copy_to_device", "hash_to_host"}) {
    for (std::size_t bad = 0; bad < kBlocks; bad += 3) {
      INFO(call << " fails for block " << bad);
      OnBadRange on;
      on.device.call = call;
      on.device.from = on.blocks[bad];
      on.device.size = OnBadRange::kSize;
      int refused = 0;
      for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < kBlocks; ++i) {
          const int code = on.look(i);
          if (i != bad) refused += code != 0;
        }
      }
      CHECK(refused == 0);
      on.device.size = Bytes();
      for (std::size_t i = 0; i < kBlocks; ++i) CHECK(on.look(i) == 0);
      CHECK(on.wrong == 0);
      CHECK(on.runtime->check() == nullptr);
      CHECK(on.fake.errors().empty());
    }
  }
}

}  // namespace tidepool::runtime
