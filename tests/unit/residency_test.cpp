#include <algorithm>
#include <random>

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

std::vector<DevicePtr> blocks_of(Program& program, int count, Bytes size) {
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(program.allocate(size));
  return blocks;
}

}  // namespace

TEST_CASE("residency: a program of twice the budget keeps every byte, and the device never holds more") {
  Program program({.seed = 7});
  const auto blocks = blocks_of(program, 8, MiB(4));
  for (int round = 0; round < 6; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  program.synchronize();
  program.check();
  CHECK(program.device().peak() <= MiB(16));
  CHECK(program.device().copied_to_host() >= MiB(16));
  CHECK(program.device().copied_to_device() >= MiB(16));
}

TEST_CASE("residency: a program that fits moves nothing and maps nothing after its second round") {
  Program program({});
  const auto blocks = blocks_of(program, 4, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  const std::size_t mappings = program.device().calls("map");
  for (int round = 0; round < 5; ++round) {
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  program.synchronize();
  program.check();
  CHECK(program.device().calls("map") == mappings);
  CHECK(program.device().copied_to_host() == Bytes());
  CHECK(program.device().copied_to_device() == Bytes());
}

TEST_CASE("residency: all blocks of one launch stay while the last of them comes in") {
  Program program({.seed = 3});
  const auto blocks = blocks_of(program, 8, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  for (int round = 0; round < 8; ++round) {
    // The first of these is the least recently used block of the set, and the set fills the budget.
    const std::size_t k = static_cast<std::size_t>(round);
    REQUIRE(program.touch({blocks[k % 8], blocks[(k + 3) % 8], blocks[(k + 5) % 8], blocks[(k + 6) % 8]}, 0)
                .ok());
  }
  program.synchronize();
  program.check();
}

TEST_CASE("residency: a launch set larger than the budget is refused, and the next launch works") {
  Program program({});
  const auto blocks = blocks_of(program, 5, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.touch(blocks, 0) == kOutOfMemory);
  CHECK(program.touch({blocks[0], blocks[1]}, 0).ok());
  program.synchronize();
  program.check();
}

TEST_CASE("residency: a block that no work has touched is not copied out") {
  Program program({});
  for (const DevicePtr block : blocks_of(program, 4, MiB(4))) {
    REQUIRE(program.touch({block}, 0).ok());
    REQUIRE(program.free(block).ok());
  }
  (void)blocks_of(program, 4, MiB(4));  // the freed pairs again: on the device, untouched in this life
  // Not the fourth: ahead of a fifth the first of these would be copied.
  for (const DevicePtr block : blocks_of(program, 3, MiB(4))) REQUIRE(program.touch({block}, 0).ok());
  program.synchronize();
  program.check();
  CHECK(program.device().copied_to_host() == Bytes());
}

TEST_CASE("residency: where memory is short, blocks are copied out before they must leave") {
  std::uint64_t waits = 0;
  Program program({.budget = "64MiB"});
  const auto blocks = blocks_of(program, 20, MiB(4));
  int rounds_with_copies = 0;
  for (int round = 0; round < 6; ++round) {
    const Bytes copied = program.device().copied_to_host();
    for (const DevicePtr block : blocks) {
      REQUIRE(program.touch({block}, 0).ok());
      // The device keeps up: what was copied ahead has arrived when the next launch needs room.
      program.device().run_all();
      const std::uint64_t now = StatsPage::instance().get(Metric::copy_out_waits_total);
      if (round == 1 && block == blocks[0]) waits = now;
      if (round > 1) CHECK(now == waits);
    }
    // Every block had been written and had to leave, or this would say nothing.
    if (round > 1 && program.device().copied_to_host() - copied >= MiB(4) * 19) ++rounds_with_copies;
  }
  CHECK(rounds_with_copies == 4);
  program.check();
}

TEST_CASE("residency: a budget that changes while the program runs is kept, and nothing is refused") {
  Program program({.budget = "64MiB"});
  const auto blocks = blocks_of(program, 14, MiB(4));
  const auto round = [&] {
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  };
  round();
  CHECK(program.device().in_use() == MiB(56));
  program.runtime().set_budget(Amount::bytes(MiB(32)));
  CHECK(program.device().in_use() <= MiB(32));
  CHECK(program.runtime().capacity() == MiB(32));
  for (int i = 0; i < 3; ++i) {
    round();
    CHECK(program.device().in_use() <= MiB(32));
  }
  program.runtime().set_budget(Amount::bytes(MiB(64)));
  round();
  program.synchronize();  // what was copied ahead while memory was short
  const Bytes moved = program.device().copied_to_host();
  round();
  program.synchronize();
  CHECK(program.device().copied_to_host() == moved);
  program.synchronize();
  program.check();
}

TEST_CASE("residency: memory that is held outside counts against the budget, and blocks make room for it") {
  Program program({.budget = "64MiB"});
  const auto blocks = blocks_of(program, 14, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  program.runtime().set_outside(MiB(24));
  CHECK(program.runtime().keep_limit());
  CHECK(program.device().in_use() <= MiB(40));
  CHECK(program.runtime().free_bytes() == Bytes());
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.device().in_use() <= MiB(40));
  program.runtime().set_outside(MiB(64));
  CHECK(program.runtime().keep_limit());
  CHECK(program.device().in_use() == Bytes());
  program.runtime().set_outside(Bytes());
  CHECK(program.runtime().keep_limit());
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  program.synchronize();
  program.check();
}

TEST_CASE("residency: memory freed by the program is used again without a driver call") {
  Program program({});
  const DevicePtr first = program.allocate(MiB(6));
  REQUIRE(program.touch({first}, 0).ok());
  REQUIRE(program.free(first).ok());
  const std::size_t mappings = program.device().calls("map");
  const DevicePtr second = program.allocate(MiB(6));
  CHECK(second == first);
  REQUIRE(program.touch({second}, 1).ok());
  program.synchronize();
  program.check();
  CHECK(program.device().calls("map") == mappings);
}

// TMS#92, vLLM#36651: memory that was freed while it was out was released twice.
TEST_CASE("residency: free takes back what is resident, out, never touched, and refuses the rest") {
  Program program({});
  const auto blocks = blocks_of(program, 6, MiB(4));
  const DevicePtr untouched = program.allocate(MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.free(blocks[0]).ok());  // out
  CHECK(program.free(blocks[5]).ok());  // resident
  CHECK(program.free(untouched).ok());
  CHECK(program.runtime().free(blocks[0]) == kInvalidValue);
  CHECK(program.runtime().free(blocks[5]) == kInvalidValue);
  CHECK(program.runtime().free(blocks[1] + Bytes(512)) == kInvalidValue);
  CHECK(program.runtime().free(program.runtime().describe(blocks[1]).base + GiB(1)) == kInvalidValue);
  program.check();
  CHECK(program.runtime().allocated() == MiB(16));
}

// TMS#90, dynamo#13710: host memory that was kept, or not to be had.
TEST_CASE("residency: host memory used up is out of memory at the allocation, not at the launch") {
  Program program({.host = "16MiB"});
  std::vector<DevicePtr> blocks;
  for (;;) {
    const auto at = program.runtime().allocate(MiB(4));
    if (!at.ok()) {
      CHECK(at.error() == kOutOfMemory);
      REQUIRE(program.runtime().allocated() >= MiB(16));
      break;
    }
    blocks.push_back(*at);
  }
  const auto mine = blocks.size();
  for (const DevicePtr at : blocks) REQUIRE(program.runtime().free(at).ok());
  std::vector<DevicePtr> again;
  for (std::size_t i = 0; i < mine; ++i) again.push_back(program.allocate(MiB(4)));
  for (int round = 0; round < 4; ++round) {
    for (const DevicePtr at : again) REQUIRE(program.touch({at}, 0).ok());
  }
  program.synchronize();
  program.check();
}

TEST_CASE("residency: every request that is refused is said and counted once") {
  const auto said = [] {
    return times_reported(Msg::TP2001) + times_reported(Msg::TP2002) + times_reported(Msg::TP2004) +
           times_reported(Msg::TP2005) + times_reported(Msg::TP2012);
  };
  const auto counted = [] { return StatsPage::instance().get(Metric::out_of_memory_total); };
  const auto refused_once = [&](auto&& ask) {
    const auto before = std::pair(said(), counted());
    CHECK(ask() == kOutOfMemory);
    CHECK(std::pair(said(), counted()) == std::pair(before.first + 1, before.second + 1));
  };
  Program program({.host = "32MiB"});
  const auto allocate = [&](Bytes size) {
    return [&program, size] {
      for (;;) {
        if (const auto at = program.runtime().allocate(size); !at.ok()) return at.error();
      }
    };
  };
  refused_once(allocate(MiB(18)));                    // larger than the device may hold
  const DevicePtr large = program.allocate(MiB(12));  // leaves little room for what must stay
  refused_once(allocate(KiB(4)));                     // in a slab
  const auto blocks = blocks_of(program, 3, MiB(2));
  refused_once(allocate(MiB(2)));  // host memory is used up
  refused_once([&] { return program.touch({large, blocks[0], blocks[1], blocks[2]}, 0); });
}

TEST_CASE("residency: allocations a little too large for a slab move like others") {
  Program program({});
  const auto blocks = blocks_of(program, 20, KiB(1536));
  for (int round = 0; round < 3; ++round) {
    for (const DevicePtr at : blocks) REQUIRE(program.touch({at}, 0).ok());
  }
  program.synchronize();
  program.check();
}

TEST_CASE("residency: small allocations leave room for what one launch has used together") {
  Program program({});
  const auto blocks = blocks_of(program, 3, MiB(4));
  REQUIRE(program.touch(blocks, 0).ok());
  int slabs = 0;
  while (program.runtime().allocate(MiB(1)).ok()) ++slabs;
  CHECK(slabs == 4);  // 16 MiB less the 12 of the launch hold two slabs
  REQUIRE(program.touch(blocks, 0).ok());
  program.device().run_all();
  program.check();
}

TEST_CASE("residency: what is given back to the driver is taken again, and the limit stays") {
  Program program({.budget = "64MiB"});
  const auto blocks = blocks_of(program, 14, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  CHECK(program.runtime().give_back(MiB(24)));
  CHECK(program.device().in_use() <= MiB(32));
  CHECK(program.runtime().capacity() == MiB(64));
  REQUIRE(program.touch({blocks.begin(), blocks.begin() + 14}, 0).ok());
  CHECK(program.device().in_use() == MiB(56));
  program.synchronize();
  program.check();
}

TEST_CASE("residency: a request that can never be held does not count against later ones") {
  Program program({.host = "32MiB"});
  CHECK(program.runtime().allocate(Bytes(std::uint64_t{1} << 50)).error() == kOutOfMemory);
  CHECK(program.runtime().allocate(Bytes(~std::uint64_t{0})).error() == kOutOfMemory);
  CHECK(program.runtime().allocate(Bytes()).error() == kInvalidValue);
  (void)blocks_of(program, 6, MiB(4));
}

TEST_CASE("residency: small allocations share slabs that stay") {
  Program program({});
  std::vector<DevicePtr> small;
  for (int i = 0; i < 300; ++i)
    small.push_back(program.allocate(Bytes(static_cast<std::uint64_t>(i) * 37 + 8)));
  for (std::size_t i = 0; i < small.size(); ++i) {
    CHECK(small[i].address() % 512 == 0);
    const auto range = program.runtime().describe(small[i] + Bytes(3));
    CHECK(range.base == small[i]);
    CHECK(range.size == Bytes(i * 37 + 8));
  }
  const auto blocks = blocks_of(program, 8, MiB(4));
  for (int round = 0; round < 3; ++round) {
    for (const DevicePtr block : blocks) {
      REQUIRE(program.touch({block, small[static_cast<std::size_t>(round)]}, 0).ok());
    }
  }
  program.synchronize();
  program.check();
  for (const DevicePtr at : small) REQUIRE(program.free(at).ok());
  CHECK(program.runtime().describe(small[3]).size == Bytes());
  CHECK(program.runtime().free(small[3]) == kInvalidValue);
}

TEST_CASE("residency: small allocations that come and go use the same memory again") {
  Program program({.budget = "128MiB"});
  Bytes after_two;
  for (int round = 0; round < 12; ++round) {
    std::vector<DevicePtr> small;
    for (int i = 0; i < 6; ++i) small.push_back(program.allocate(MiB(1)));
    for (const DevicePtr at : small) REQUIRE(program.free(at).ok());
    if (round == 1) after_two = program.device().in_use();
  }
  CHECK(program.device().in_use() == after_two);
}

TEST_CASE("residency: after freeze nothing moves, and what does not fit is refused") {
  Program program({});
  auto blocks = blocks_of(program, 4, MiB(4));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  SECTION("everything fits") {
    REQUIRE(program.runtime().freeze("test").ok());
    CHECK_FALSE(program.runtime().allocate(MiB(4)).ok());
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  SECTION("it does not fit") {
    const DevicePtr more = program.allocate(MiB(4));
    REQUIRE(program.touch({more}, 0).ok());
    CHECK(program.runtime().freeze("test") == kOutOfMemory);
    CHECK_FALSE(program.runtime().frozen());
    for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  }
  program.synchronize();
  program.check();
}

// Any sequence of allocations, launches on several streams and frees: the invariants hold, the budget holds,
// and every kernel reads what was written last.
// kvcached#262, #437: an unmap that was refused after a while.
TEST_CASE("residency: random programs keep their bytes") {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Program program({.seed = seed});
    std::vector<DevicePtr> live;
    std::size_t stream = 0;
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int step = 0; step < 120; ++step) {
      const std::size_t action = pick(10);
      if (live.size() < 4 || (action < 2 && live.size() < 14)) {
        live.push_back(program.allocate(MiB(2) + Bytes(pick(2) * 8 * pick(500000))));
      } else if (action == 2) {
        const std::size_t victim = pick(live.size());
        REQUIRE(program.free(live[victim]).ok());
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      } else {
        if (action == 3) {  // the program changes streams, ordering them as it must
          program.synchronize();
          stream = pick(3);
        }
        std::vector<DevicePtr> set;
        for (std::size_t i = 0; i < 1 + pick(2); ++i) {
          const DevicePtr block = live[pick(live.size())];
          if (std::find(set.begin(), set.end(), block) == set.end()) set.push_back(block);
        }
        REQUIRE(program.touch(set, stream).ok());
      }
      if (action == 9) program.device().run_some(pick(4));
    }
    program.synchronize();
    program.check();
    REQUIRE(program.device().peak() <= MiB(16));
  }
}

}  // namespace tidepool::runtime
