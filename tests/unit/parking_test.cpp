// TIDEPOOL_CHECK=unmap: between calls only what work uses has an address, and nothing else changes.

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

std::vector<DevicePtr> blocks_of(Program& program, int count, Bytes size) {
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(program.allocate(size));
  return blocks;
}

bool has_address(Program& program, DevicePtr at) {
  std::uint64_t word = 0;
  return program.device().peek(at, &word, Bytes(8));
}

BlockState state_of(Program& program, DevicePtr at) {
  return program.runtime().arena().block(program.runtime().find(at.address())).load().state();
}

}  // namespace

TEST_CASE("parking: after each launch no block has an address, and no byte moves") {
  Program program({.check = "unmap"});
  const auto blocks = blocks_of(program, 3, MiB(4));
  for (int round = 0; round < 4; ++round) {
    for (const DevicePtr block : blocks) {
      REQUIRE(program.touch({block}, static_cast<std::size_t>(round)).ok());
      for (const DevicePtr any : blocks) CHECK_FALSE(has_address(program, any));
    }
  }
  program.check();
  CHECK(program.device().copied_to_host() == Bytes());
  CHECK(program.device().copied_to_device() == Bytes());
  // Its memory is its own all the time, and counts.
  CHECK(program.device().in_use() == MiB(12));
  CHECK(program.device().calls("create") <= 12 / 2);
}

TEST_CASE("parking: a launch that names a block only where nobody looks meets an illegal address") {
  Program program({.budget = "64MiB", .check = "unmap", .is_lost = true});
  const DevicePtr table = program.allocate(KiB(64));
  const DevicePtr hidden = program.allocate(MiB(4));
  REQUIRE(program.touch({hidden}, 0).ok());
  const BlockId named[] = {program.runtime().find(table.address())};
  const auto launch = [&](const char* name) {
    return program.runtime().launch(named, program.stream(0), WorkName(name), [&] {
      return program.device()
          .submit(program.stream(0), name,
                  [&](auto& access) {
                    std::uint64_t word = 0;
                    access.read(hidden, &word, Bytes(8));
                  })
          .code();
    });
  };
  CHECK(launch("the kernel") == 0);  // enqueued; what it does comes later, as on a device
  CHECK(program.device().errors().size() == 1);
  CHECK(launch("another kernel") == fakes::FakeDevice::kIllegalAddress.code());
}

TEST_CASE("parking: every order of work gives the same bytes, at any budget, with all invariants") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const char* budget : {"16MiB", "64MiB"}) {
      INFO("seed " << seed << ", budget " << budget);
      Program program({.budget = budget, .seed = seed, .check = "unmap"});
      auto blocks = blocks_of(program, 8, MiB(4));
      for (std::size_t i = 0; i < 60; ++i) {
        const std::size_t one = i * 7 % 8;
        const std::size_t two = i * 5 % 8;
        const std::vector<DevicePtr> set =
            one == two ? std::vector{blocks[one]} : std::vector{blocks[one], blocks[two]};
        REQUIRE(program.touch(set, i % 3).ok());
        program.synchronize();
        if (i % 9 == 0) {  // a parked block is freed, and its memory is another's
          REQUIRE(program.free(blocks[one]).ok());
          blocks[one] = program.allocate(MiB(4));
        }
        if (i % 11 == 0) {
          program.free_in(blocks[two], i % 3);
          blocks[two] = program.allocate_in(MiB(4), i % 3);
          REQUIRE(program.touch({blocks[two]}, i % 3).ok());
          program.synchronize();
        }
      }
      program.check();
      CHECK(program.device().peak() <= (budget[0] == '1' ? MiB(16) : MiB(64)));
    }
  }
}

TEST_CASE("parking: what is kept keeps its address, also when it was parked before") {
  Program program({.budget = "64MiB", .check = "unmap"});
  const auto blocks = blocks_of(program, 2, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  REQUIRE(state_of(program, blocks[0]) == BlockState::kParked);
  REQUIRE(program.runtime().keep(blocks[0], "test").ok());
  REQUIRE(program.touch({blocks[1]}, 0).ok());
  CHECK(has_address(program, blocks[0]));
  CHECK_FALSE(has_address(program, blocks[1]));
  program.check();
  // From here on nothing is taken away any more.
  REQUIRE(program.runtime().freeze("test").ok());
  REQUIRE(program.touch({blocks[1]}, 0).ok());
  CHECK(has_address(program, blocks[1]));
  program.synchronize();
  program.check();
}

TEST_CASE("parking: a smaller budget takes the memory of parked blocks, and their bytes come back") {
  Program program({.budget = "64MiB", .check = "unmap"});
  const auto blocks = blocks_of(program, 14, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.device().in_use() == MiB(56));
  program.runtime().set_budget(Amount::bytes(MiB(16)));
  CHECK(program.device().in_use() <= MiB(16));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  program.check();
  CHECK(program.device().in_use() <= MiB(16));
  // Nothing but copies moves bytes: parking alone would not have.
  CHECK(program.device().copied_to_host() >= MiB(40));
}

TEST_CASE("parking: work that does not end keeps the addresses of what it uses, and others go on") {
  Program program({.budget = "64MiB", .check = "unmap"});
  const auto blocks = blocks_of(program, 2, MiB(4));
  program.device().hold(program.stream(0));
  REQUIRE(program.touch({blocks[0]}, 0).ok());
  CHECK(state_of(program, blocks[0]) == BlockState::kResident);
  const Nanos start = monotonic_now();
  for (int i = 0; i < 20; ++i) REQUIRE(program.touch({blocks[1]}, 1).ok());
  // Once it has waited in vain it waits no longer than it must.
  CHECK(monotonic_now() - start < seconds(1));
  CHECK(state_of(program, blocks[0]) == BlockState::kResident);
  program.device().end_hold(program.stream(0));
  program.synchronize();
  REQUIRE(program.touch({blocks[1]}, 1).ok());
  CHECK(state_of(program, blocks[0]) == BlockState::kParked);
  program.check();
}

// What is in its memory is all there is of it: nobody else may be given that meanwhile.
TEST_CASE("parking: a parked block that cannot be mapped keeps its memory, and what is in it") {
  for (const char* call : {"map", "set_access"}) {
    for (const int failures : {1, 100}) {
      INFO(call << " fails " << failures << " times");
      Program program({.budget = "64MiB", .check = "unmap"});
      const auto blocks = blocks_of(program, 2, MiB(8));
      REQUIRE(program.touch({blocks[0]}, 0).ok());
      program.synchronize();
      REQUIRE(program.touch({blocks[1]}, 0).ok());
      REQUIRE(state_of(program, blocks[0]) == BlockState::kParked);
      const std::string plan = std::string(call) + " count=" + std::to_string(failures) + " return=999";
      REQUIRE(program.device().faults().add_text(plan).empty());
      const Status named = program.touch({blocks[0]}, 0);
      REQUIRE(program.device().faults().injected() > 0);
      program.device().faults().clear();
      CHECK(named == (failures == 1 ? kOk : Status(999)));
      // Whatever is spare is given to others, and written.
      for (const DevicePtr other : blocks_of(program, 6, MiB(8))) REQUIRE(program.touch({other}, 0).ok());
      REQUIRE(program.touch(blocks, 0).ok());
      program.synchronize();
      program.check();
      CHECK(program.device().copied_to_host() == Bytes());
      CHECK(program.device().in_use() == MiB(64));
    }
  }
}

}  // namespace tidepool::runtime
