// What has not changed since it was on the host is not copied there again (docs/explanation/decisions/0022).

#include <algorithm>
#include <random>

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr int kBlocks = 8;
constexpr Bytes kAll = MiB(4 * kBlocks);

std::uint64_t count(Metric metric) {
  return StatsPage::instance().get(metric);
}

/// A small allocation, beside which the device's hashes find their memory, then blocks of twice the budget;
/// each is written once.
std::vector<DevicePtr> written_blocks(Program& program) {
  (void)program.allocate(KiB(4));
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(program.allocate(MiB(4)));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  program.synchronize();
  return blocks;
}

/// Bytes that one round over the blocks copies to the host.
template <class Launch>
Bytes copied_in_round(Program& program, const std::vector<DevicePtr>& blocks, Launch&& launch) {
  const Bytes before = program.device().copied_to_host();
  for (const DevicePtr block : blocks) {
    REQUIRE(launch(block).ok());
    program.device().run_all();
  }
  program.synchronize();
  return program.device().copied_to_host() - before;
}

}  // namespace

TEST_CASE("clean: what is only read is copied to the host once") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    Program program({.budget = "20MiB", .seed = seed, .check = "cheap"});
    const auto blocks = written_blocks(program);
    const std::uint64_t saved = count(Metric::clean_bytes_total);
    const auto look = [&](DevicePtr block) { return program.look({block}, 0); };
    // The first round finds some of them on the device, changed.
    CHECK(copied_in_round(program, blocks, look) <= kAll);
    for (int round = 0; round < 4; ++round) CHECK(copied_in_round(program, blocks, look) == Bytes());
    CHECK(count(Metric::clean_bytes_total) - saved >= 3 * kAll.count());
    program.check();
  }
}

TEST_CASE("clean: a copy that a check made all the same was not needed") {
  Program program({.budget = "20MiB", .check = "full"});
  const auto blocks = written_blocks(program);
  const std::size_t told = times_reported(Msg::TP3004);
  for (int round = 0; round < 5; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.look({block}, 0).ok());
  }
  program.synchronize();
  program.check();
  CHECK(times_reported(Msg::TP3004) == told);
}

TEST_CASE("clean: what is written every time is copied every time, and seldom hashed") {
  Program program({.budget = "20MiB", .check = "cheap"});
  const auto blocks = written_blocks(program);
  const auto write = [&](DevicePtr block) { return program.touch({block}, 0); };
  for (int round = 0; round < 6; ++round) (void)copied_in_round(program, blocks, write);
  const std::uint64_t hashes = count(Metric::hashes_total);
  const std::uint64_t saved = count(Metric::clean_bytes_total);
  for (int round = 0; round < 8; ++round) CHECK(copied_in_round(program, blocks, write) >= kAll);
  CHECK(count(Metric::hashes_total) - hashes <= 2 * kBlocks);
  CHECK(count(Metric::clean_bytes_total) == saved);
  program.check();
}

TEST_CASE("clean: what is written now and then is copied then") {
  Program program({.budget = "20MiB", .check = "cheap"});
  const auto blocks = written_blocks(program);
  Bytes copied;
  for (int round = 0; round < 12; ++round) {
    copied += copied_in_round(program, blocks, [&](DevicePtr block) {
      return round % 3 == 2 ? program.touch({block}, 0) : program.look({block}, 0);
    });
  }
  program.check();
  // What the setting up wrote and what each of the four writing rounds did, but for what is there still;
  // without hashes, twelve rounds.
  CHECK(copied <= kAll * 6);
  CHECK(copied >= kAll * 3);
}

TEST_CASE("clean: off, no hash is made and everything is copied") {
  Program program({.budget = "20MiB", .check = "cheap", .clean = "0"});
  const auto blocks = written_blocks(program);
  const auto look = [&](DevicePtr block) { return program.look({block}, 0); };
  CHECK(copied_in_round(program, blocks, look) >= kAll);
  CHECK(copied_in_round(program, blocks, look) >= kAll);
  CHECK(program.device().calls("prepare_hash") == 0);
  CHECK(program.device().calls("hash_to_host") == 0);
  program.check();
}

TEST_CASE("clean: a program that fits, or would lose room by it, prepares nothing") {
  Program fits({.budget = "64MiB"});
  (void)written_blocks(fits);
  CHECK(fits.device().calls("prepare_hash") == 0);
  Program tight({.budget = "16MiB"});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(tight.allocate(MiB(4)));
  REQUIRE(tight.touch({blocks[0], blocks[1], blocks[2], blocks[3]}, 0).ok());
  REQUIRE(tight.touch({blocks[4], blocks[5], blocks[6], blocks[7]}, 0).ok());
  CHECK(tight.device().calls("prepare_hash") == 0);
}

TEST_CASE("clean: with room for it, a program without small allocations has hashes too") {
  Program program({.device = MiB(512), .budget = "128MiB", .check = "cheap"});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(program.allocate(MiB(4)));
  CHECK(program.device().calls("prepare_hash") == 1);
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  const auto look = [&](DevicePtr block) { return program.look({block}, 0); };
  // More than the pinned memory has room for: it grows once the copies are known to be of use.
  for (int round = 0; round < 4; ++round) (void)copied_in_round(program, blocks, look);
  CHECK(copied_in_round(program, blocks, look) == Bytes());
  program.check();
}

TEST_CASE("clean: a device that cannot hash copies everything, and only the log says so") {
  Program program({.budget = "20MiB", .check = "cheap"});
  program.device().faults().add({.function = "prepare_hash", .code = 801});
  const std::uint64_t warnings = count(Metric::warnings_total);
  const auto blocks = written_blocks(program);
  const auto look = [&](DevicePtr block) { return program.look({block}, 0); };
  CHECK(copied_in_round(program, blocks, look) >= kAll);
  CHECK(copied_in_round(program, blocks, look) >= kAll);
  CHECK(program.device().calls("hash_to_host") == 0);
  CHECK(count(Metric::warnings_total) == warnings);
  program.check();
}

TEST_CASE("clean: a hash that errs is found by a check, and the right bytes are kept") {
  Program program({.budget = "20MiB", .check = "full"});
  program.device().lie_about_hashes();
  const std::size_t told = times_reported(Msg::TP3004);
  const auto blocks = written_blocks(program);
  for (int round = 0; round < 4; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  program.synchronize();
  program.check();
  CHECK(times_reported(Msg::TP3004) > told);
}

TEST_CASE("clean: copies give way where host memory is short, and go with their block") {
  Program program({.budget = "20MiB", .host = "28MiB", .check = "full"});
  auto blocks = written_blocks(program);
  for (int round = 0; round < 4; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.look({block}, 0).ok());
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  program.synchronize();
  program.check();
  for (const DevicePtr block : blocks) REQUIRE(program.free(block).ok());
  // The next turn of the slow path finds them gone.
  const DevicePtr other = program.allocate(MiB(14));
  REQUIRE(program.touch({other}, 0).ok());
  program.synchronize();
  program.check();
  CHECK(count(Metric::host_bytes) == 0);
}

// A hash needs a multiprocessor, and a kernel may hold them all until the host has given it work.
TEST_CASE("clean: a kernel that holds all multiprocessors keeps nobody from room") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    Program program({.budget = "20MiB", .seed = seed, .check = "off"});
    const auto blocks = written_blocks(program);
    const auto look = [&](DevicePtr block) { return program.look({block}, 0); };
    for (int round = 0; round < 3; ++round) (void)copied_in_round(program, blocks, look);
    CHECK(copied_in_round(program, blocks, look) == Bytes());
    const std::uint64_t before = count(Metric::hashes_total);
    program.device().begin_full();
    REQUIRE(program.look_by_copy({blocks[0]}, 0).ok());
    REQUIRE(program.look_by_copy({blocks[1]}, 1).ok());
    const std::uint64_t asked = count(Metric::hashes_total);
    CHECK(asked > before);
    // What was given up is not asked again.
    REQUIRE(program.look_by_copy({blocks[2]}, 2).ok());
    CHECK(count(Metric::hashes_total) == asked);
    program.device().end_full();
    program.synchronize();
    program.check();
    // That is over, and what is unchanged is found to be again.
    for (int round = 0; round < 3; ++round) (void)copied_in_round(program, blocks, look);
    CHECK(copied_in_round(program, blocks, look) == Bytes());
    program.check();
  }
}

// What was to be hashed is used, written, freed and moved meanwhile; then the hashes are made after all, in
// memory that is something else's or nobody's.
TEST_CASE("clean: what is hashed too late is not read, and what comes of it is no answer") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Program program({.budget = "24MiB", .seed = seed, .check = "cheap"});
    auto blocks = written_blocks(program);
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 2 * kBlocks; ++i) {
        const DevicePtr block = blocks[random() % blocks.size()];
        REQUIRE((random() % 4 == 0 ? program.touch({block}, 0) : program.look({block}, 0)).ok());
        program.device().run_some(random() % 12);
      }
      program.synchronize();
      program.device().begin_full();
      const auto stream = static_cast<std::size_t>(round);  // the others' work is over
      for (int i = 0; i < 3; ++i) {
        const DevicePtr block = blocks[random() % blocks.size()];
        REQUIRE((random() % 2 == 0 ? program.touch_by_copy({block}, stream)
                                   : program.look_by_copy({block}, stream))
                    .ok());
      }
      program.device().end_full();
      program.device().run_some(random() % 40);
      if (round % 2 == 0) {
        REQUIRE(program.free(blocks.back()).ok());
        blocks.back() = program.allocate(MiB(4));
        REQUIRE(program.touch({blocks.back()}, stream).ok());
      }
      program.synchronize();
    }
    program.synchronize();
    program.check();
  }
}

// Two streams that use a block without an order between them, one each half of it. When one takes the block
// back from a copy that is under way, the other is not ordered after that copy: what is copied may be what
// the block never held. It is no copy of the block, also when the block holds again what it held before.
TEST_CASE("clean: a copy that was taken back while it was made does not count") {
  const Bytes half = MiB(2);
  int interrupted = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Program program({.budget = "20MiB", .seed = seed, .check = "off"});
    fakes::FakeDevice& device = program.device();
    std::mt19937_64 random(seed);
    const std::vector<DevicePtr> others = written_blocks(program);
    const DevicePtr block = program.allocate(half * 2);
    const std::vector<BlockId> set{program.runtime().find(block.address())};
    const auto state = [&] { return program.runtime().arena().block(set[0]).load().state(); };
    int wrong = 0;
    // Looks whether the half of this stream holds `now` everywhere, and fills it with `next`.
    const auto use = [&](std::size_t stream, unsigned char now, unsigned char next) {
      const DevicePtr at = stream == 1 ? block : block + half;
      REQUIRE(program.runtime().launch(set, program.stream(stream), "kernel", [&] {
        return device
            .submit(program.stream(stream), "kernel",
                    [=, &wrong](auto& access) {
                      std::vector<unsigned char> bytes(half.count());
                      access.read(at, bytes.data(), half);
                      wrong += std::any_of(bytes.begin(), bytes.end(),
                                           [=](unsigned char byte) { return byte != now; });
                      std::fill(bytes.begin(), bytes.end(), next);
                      access.write(at, bytes.data(), half);
                    })
            .code();
      }) == 0);
    };
    const unsigned char fresh = 0;
    REQUIRE(program.runtime().launch(set, program.stream(1), "first kernel", [&] {
      return device
          .submit(program.stream(1), "first kernel",
                  [=](auto& access) {
                    const std::vector<unsigned char> zeroes(half.count() * 2, fresh);
                    access.write(block, zeroes.data(), half * 2);
                  })
          .code();
    }) == 0);
    program.synchronize();
    const auto press_until = [&](BlockState wanted) {
      for (std::size_t i = 0; state() != wanted && i < 40; ++i) {
        REQUIRE(program.look({others[i % others.size()]}, 0).ok());
        if (wanted == BlockState::kOut) device.run_all();
      }
    };
    press_until(BlockState::kOutgoing);
    interrupted += state() == BlockState::kOutgoing;
    use(1, 0, 0);
    use(2, 0, 0xaa);
    device.run_some(random() % 8);
    use(2, 0xaa, 0);
    program.synchronize();
    press_until(BlockState::kOut);
    use(2, 0, 0);
    program.synchronize();
    CHECK(wrong == 0);
    program.check();
  }
  CHECK(interrupted > 50);
}

// Reads and writes of some blocks in some streams, late and in any order that they allow: what a block holds
// when it is taken back, overtaken or freed at any step of its way out is what was written last.
TEST_CASE("clean: random programs that read and write keep their bytes") {
  for (const char* const check : {"cheap", "full"}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      INFO("seed " << seed << ", check " << check);
      std::mt19937_64 random(seed);
      const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
      Program program(
          {.budget = "32MiB", .host = pick(2) == 0 ? "1GiB" : "56MiB", .seed = seed, .check = check});
      (void)program.allocate(KiB(4));
      std::vector<DevicePtr> live;
      std::size_t stream = 0;
      for (int step = 0; step < 160; ++step) {
        const std::size_t action = pick(12);
        if (live.size() < 9 || (action == 0 && live.size() < 16)) {
          live.push_back(program.allocate(MiB(2) + Bytes(pick(2) * 8 * pick(300000))));
          REQUIRE(program.touch({live.back()}, stream).ok());
        } else if (action == 1) {
          const std::size_t victim = pick(live.size());
          REQUIRE(program.free(live[victim]).ok());
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
        } else {
          if (action == 2) {
            program.synchronize();
            stream = pick(3);
          }
          std::vector<DevicePtr> set;
          for (std::size_t i = 0; i < 1 + pick(2); ++i) {
            const DevicePtr block = live[pick(live.size())];
            if (std::find(set.begin(), set.end(), block) == set.end()) set.push_back(block);
          }
          REQUIRE((pick(4) == 0 ? program.touch(set, stream) : program.look(set, stream)).ok());
        }
        if (action > 6) program.device().run_some(pick(6));
      }
      program.synchronize();
      program.check();
      REQUIRE(program.device().peak() <= MiB(32));
    }
  }
}

}  // namespace tidepool::runtime
