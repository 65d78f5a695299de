// Budgets that are asked of a running process from outside, through its stats page.
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "allocator/support/budget_control.h"
#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

BudgetControl& control() {
  return StatsPage::instance().budget_control();
}

BudgetRequest ask(Bytes budget) {
  return control().ask(Amount::bytes(budget));
}

/// Each case begins without a request, as a process does.
struct Quiet {
  Quiet() { control().asked.store(0); }
  ~Quiet() { control().asked.store(0); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// The answer of the one device in this process.
const BudgetAnswer& answer() {
  return control().answers[0];
}

std::vector<DevicePtr> touched_blocks(Program& program, int count, Bytes size) {
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(program.allocate(size));
    REQUIRE(program.touch({blocks.back()}, 0).ok());
  }
  return blocks;
}

TEST_CASE("budget: a request keeps its amount, and no two that follow each other are equal") {
  const Amount amounts[] = {Amount::bytes(MiB(16)), Amount::bytes(Bytes(1)), Amount::share(500'000),
                            Amount::share(0), Amount::bytes(GiB(100))};
  BudgetRequest last;
  CHECK_FALSE(last);
  for (int round = 0; round < 30'000; ++round) {
    for (const Amount amount : amounts) {
      const BudgetRequest next = BudgetRequest::after(last, amount);
      if (next == last || !next || !(next.amount() == amount)) FAIL(round);
      last = BudgetRequest::from_raw(next.raw());
    }
  }
  // What would not fit into its place must not run into its neighbours.
  const BudgetRequest huge = BudgetRequest::after(last, Amount::bytes(GiB(1 << 30)));
  CHECK_FALSE(huge.amount().is_share());
  CHECK(huge.amount().count() == (std::uint64_t{1} << 47) - 1);
}

TEST_CASE("budget: a job that only launches, with everything there, gives memory back at its next launch") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  const auto blocks = touched_blocks(program, 14, MiB(4));
  REQUIRE(program.device().in_use() == MiB(56));
  const BudgetRequest request = ask(MiB(32));
  CHECK(answer().taken.load() == 0);
  REQUIRE(program.touch({blocks.back()}, 0).ok());
  CHECK(program.device().in_use() <= MiB(32));
  CHECK(answer().taken.load() == request.raw());
  CHECK(answer().outcome().capacity == MiB(32));
  CHECK(answer().outcome().before == MiB(64));
  CHECK(answer().outcome().held <= MiB(32));
  CHECK(answer().outcome().limit == BudgetLimit::kAsked);
  for (int round = 0; round < 3; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
    CHECK(program.device().in_use() <= MiB(32));
  }
  ask(MiB(64));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.device().in_use() == MiB(56));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: an allocation takes it, and so does whoever asks what is free") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  touched_blocks(program, 12, MiB(4));
  ask(MiB(32));
  (void)program.allocate(MiB(4));
  CHECK(program.device().in_use() <= MiB(32));
  ask(MiB(24));
  program.runtime().obey();
  CHECK(program.runtime().free_bytes() == Bytes());
  CHECK(program.runtime().capacity() == MiB(24));
  CHECK(program.device().in_use() <= MiB(24));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: one that was asked before the device was used holds from the first byte") {
  const Quiet quiet;
  const BudgetRequest request = ask(MiB(32));
  Program program({.budget = "64MiB"});
  CHECK(answer().taken.load() == request.raw());
  CHECK(program.runtime().capacity() == MiB(32));
  const auto blocks = touched_blocks(program, 14, MiB(4));
  CHECK(program.device().peak() <= MiB(32));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: it does not fall below the most that one launch has brought together") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(program.allocate(MiB(4)));
  REQUIRE(program.touch(blocks, 0).ok());
  ask(MiB(16));
  REQUIRE(program.touch({blocks[0]}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kNeeded);
  CHECK(answer().outcome().capacity == MiB(24));
  REQUIRE(program.touch(blocks, 0).ok());
  CHECK(program.device().in_use() <= MiB(24));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: it grows again where a launch or an allocation needs more, up to what the program had") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  // Each of these is brought in by a launch of its own; together they are named where all of them are there.
  const auto blocks = touched_blocks(program, 14, MiB(4));
  const std::vector<DevicePtr> six(blocks.begin(), blocks.begin() + 6);
  REQUIRE(program.touch(six, 0).ok());
  ask(MiB(16));
  REQUIRE(program.touch({blocks[13]}, 0).ok());
  CHECK(answer().outcome().capacity == MiB(16));
  REQUIRE(program.touch(six, 0).ok());
  CHECK(program.runtime().capacity() == MiB(24));
  CHECK(answer().outcome().capacity == MiB(24));
  CHECK(answer().outcome().limit == BudgetLimit::kNeeded);
  REQUIRE(program.runtime().keep(blocks[7], "test").ok());
  REQUIRE(program.runtime().keep(blocks[8], "test").ok());
  REQUIRE(program.touch(six, 0).ok());
  CHECK(program.runtime().capacity() == MiB(32));
  (void)program.allocate(MiB(28));  // with what stays, 36
  CHECK(program.runtime().capacity() >= MiB(36));
  CHECK(program.device().in_use() <= program.runtime().capacity());
  // Small memory stays, beside room for the largest block.
  std::vector<DevicePtr> small;
  for (int i = 0; i < 6; ++i) small.push_back(program.allocate(MiB(1)));
  CHECK(program.runtime().capacity() <= MiB(64));
  CHECK(program.touch(blocks, 0).ok());
  CHECK(program.runtime().capacity() <= MiB(64));
  CHECK(program.runtime().allocate(MiB(66)).error() == kOutOfMemory);
  program.synchronize();
  program.check();
}

TEST_CASE("budget: what the host has no room for stays, and allocations that had room before still do") {
  const Quiet quiet;
  Program program({.budget = "64MiB", .host = "32MiB"});
  const auto blocks = touched_blocks(program, 14, MiB(4));
  ask(MiB(16));
  REQUIRE(program.touch({blocks[0]}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kNeeded);
  CHECK(answer().outcome().capacity == MiB(32));  // 56 there, and 8 to exchange blocks with, 32 on the host
  CHECK(answer().outcome().held <= MiB(32));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  (void)program.allocate(MiB(4));
  CHECK(program.runtime().capacity() == MiB(36));
  CHECK(program.device().in_use() <= MiB(36));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: what stays on the device stays within it") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  const auto blocks = touched_blocks(program, 14, MiB(4));
  for (int i = 0; i < 5; ++i)
    REQUIRE(program.runtime().keep(blocks[static_cast<std::size_t>(i)], "test").ok());
  ask(MiB(16));
  REQUIRE(program.touch({blocks[13]}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kNeeded);
  CHECK(answer().outcome().capacity == MiB(24));  // 20 that stay, and 4 for a launch
  CHECK(program.device().in_use() <= MiB(24));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  // A request that asks for more is not held down by what was needed before.
  ask(MiB(40));
  REQUIRE(program.touch({blocks[13]}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kAsked);
  CHECK(program.runtime().capacity() == MiB(40));
  program.synchronize();
  program.check();
}

TEST_CASE("budget: the answer says why it is not what was asked") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  const DevicePtr block = program.allocate(MiB(4));
  control().ask(Amount::share(1));
  REQUIRE(program.touch({block}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kLeast);
  CHECK(program.runtime().capacity() == kLeastDeviceBudget);
  ask(GiB(10));
  REQUIRE(program.touch({block}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kDevice);
  CHECK(program.runtime().capacity() == MiB(256));
  control().ask(Amount::share(500'000));
  REQUIRE(program.touch({block}, 0).ok());
  CHECK(answer().outcome().limit == BudgetLimit::kAsked);
  CHECK(program.runtime().capacity() == MiB(128));
  program.synchronize();
}

TEST_CASE("budget: of several requests the last one counts, once") {
  const Quiet quiet;
  Program program({.budget = "64MiB"});
  const DevicePtr block = program.allocate(MiB(4));
  ask(MiB(20));
  ask(MiB(30));
  const BudgetRequest last = ask(MiB(40));
  REQUIRE(program.touch({block}, 0).ok());
  CHECK(answer().taken.load() == last.raw());
  CHECK(answer().outcome().before == MiB(64));
  CHECK(program.runtime().capacity() == MiB(40));
  program.runtime().set_budget(Amount::bytes(MiB(48)));
  REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.runtime().capacity() == MiB(48));
  program.synchronize();
}

TEST_CASE("budget: a device that is given up answers no more") {
  const Quiet quiet;
  {
    Program program({.budget = "64MiB"});
    CHECK(answer().owned.load() == BudgetAnswer::kAnswers);
    ask(MiB(32));
    REQUIRE(program.touch({program.allocate(MiB(4))}, 0).ok());
    program.synchronize();
  }
  CHECK(answer().owned.load() == 0);
  CHECK(answer().taken.load() == 0);
}

}  // namespace
}  // namespace tidepool::runtime
