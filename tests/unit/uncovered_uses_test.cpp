// A launch leaves no use on a block that has one which nothing covers yet (Stream::uncovered). It must when a
// mark, or a wait for the device, comes in between.

#include <functional>

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kSeeds = 20;

/// A launch in the stream that writes `word` to the block, with `before()` between the look at the block and
/// the enqueue.
int write(Program& program, DevicePtr at, std::uint64_t word, const std::function<void()>& before) {
  const BlockId set[] = {program.runtime().find(at.address())};
  return program.runtime().launch(set, program.stream(0), "writing kernel", [&] {
    before();
    return program.device()
        .submit(program.stream(0), "writing kernel",
                [=](auto& access) { access.write(at, &word, Bytes(sizeof word)); })
        .code();
  });
}

std::uint64_t read(Program& program, DevicePtr at) {
  std::uint64_t word = 0;
  const BlockId set[] = {program.runtime().find(at.address())};
  REQUIRE(program.runtime().launch(set, program.stream(0), "reading kernel", [&] {
    return program.device()
        .submit(program.stream(0), "reading kernel",
                [&](auto& access) { access.read(at, &word, Bytes(sizeof word)); })
        .code();
  }) == 0);
  program.synchronize();
  return word;
}

/// Two launches in a row on one block, then another block takes its place; what the first block has after
/// that. Wrong, or an error of the device, if the second launch was not waited for.
void launch_twice_and_evict(std::uint64_t seed, const std::function<void(Program&)>& between) {
  INFO("seed " << seed);
  Program program({.seed = seed});
  const DevicePtr block = program.allocate(MiB(12));
  const DevicePtr other = program.allocate(MiB(12));
  REQUIRE(write(program, block, 1, [] {}) == 0);
  REQUIRE(write(program, block, 2, [] {}) == 0);
  REQUIRE(write(program, block, 3, [&] { between(program); }) == 0);
  REQUIRE(program.touch({other}, 1).ok());
  CHECK(read(program, block) == 3);
  program.check();
}

}  // namespace

TEST_CASE("uncovered: a launch that left no use is waited for with the one before") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) launch_twice_and_evict(seed, [](Program&) {});
}

TEST_CASE("uncovered: a mark between the look at a block and the enqueue does not cover the launch") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    launch_twice_and_evict(seed, [](Program& program) { program.runtime().capture_begins(); });
  }
}

TEST_CASE("uncovered: memory that comes back to its stream has been used once it is used again") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Program program({.seed = seed});
    DevicePtr block = program.allocate_in(MiB(12), 0);
    REQUIRE(program.touch({block}, 0).ok());
    program.free_in(block, 0);
    block = program.allocate_in(MiB(12), 0);
    REQUIRE(write(program, block, 7, [] {}) == 0);
    const DevicePtr other = program.allocate(MiB(12));
    REQUIRE(program.touch({other}, 1).ok());
    CHECK(read(program, block) == 7);
    program.check();
  }
}

}  // namespace tidepool::runtime
