// The set of blocks that one call touches, at the edge of its room.

#include "shim/touch_set.h"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::shim {
namespace {

constexpr Bytes kChunk = runtime::Arena::kChunk;

struct Blocks {
  explicit Blocks(std::size_t count) {
    auto made = runtime::Arena::create(device);
    REQUIRE(made.ok());
    arena.reset(*made);
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = arena->add(kChunk, kChunk);
      REQUIRE(id.ok());
      addresses.push_back(arena->block(*id).base.address());
    }
  }
  fakes::FakeDevice device{{GiB(4), MiB(2), 1}};
  std::unique_ptr<runtime::Arena> arena;
  std::vector<std::uint64_t> addresses;
};

}  // namespace

TEST_CASE("touch set: a pointer beside a block leads to the block that is nearest") {
  const Blocks blocks(2);
  const std::uint64_t half = kChunk.count() / 2;
  const runtime::BlockId first = blocks.arena->find(blocks.addresses[0]);
  const runtime::BlockId second = blocks.arena->find(blocks.addresses[1]);
  REQUIRE(blocks.addresses[1] == blocks.addresses[0] + 2 * kChunk.count());
  const auto named = [&](std::uint64_t address) {
    TouchSet one(*blocks.arena);
    TouchSet many(*blocks.arena);
    one.add(address);
    many.add_each(1, [&](std::size_t) { return address; });
    REQUIRE(std::vector(one.ids().begin(), one.ids().end()) ==
            std::vector(many.ids().begin(), many.ids().end()));
    return one.empty() ? runtime::kNoBlock : one.ids()[0];
  };
  CHECK(named(blocks.addresses[0] - half - 1) == runtime::kNoBlock);
  CHECK(named(blocks.addresses[0] - half) == first);
  CHECK(named(blocks.addresses[0] - 1) == first);
  CHECK(named(blocks.addresses[0] + kChunk.count()) == first);
  CHECK(named(blocks.addresses[1] - half - 1) == first);
  CHECK(named(blocks.addresses[1] - half) == second);
  CHECK(named(blocks.addresses[1] + kChunk.count() + half - 1) == second);
  CHECK(named(blocks.addresses[1] + kChunk.count() + half) == runtime::kNoBlock);
  CHECK(named(blocks.arena->base().address()) == runtime::kNoBlock);
  CHECK(named(blocks.arena->base().address() - 1) == runtime::kNoBlock);
  CHECK(named(blocks.arena->base().address() + blocks.arena->size().count() - 1) == runtime::kNoBlock);
  CHECK(named(blocks.arena->base().address() + blocks.arena->size().count()) == runtime::kNoBlock);
  // Who asks whose memory it is gets no neighbour.
  CHECK(blocks.arena->find(blocks.addresses[0] - 1) == runtime::kNoBlock);
  CHECK(blocks.arena->find(blocks.addresses[0] + kChunk.count()) == runtime::kNoBlock);
}

TEST_CASE("touch set: as many blocks as a launch can name fit") {
  constexpr std::size_t kMost = 4095;
  const Blocks blocks(kMost);
  TouchSet set(*blocks.arena);
  for (const std::uint64_t at : blocks.addresses) set.add(at + 100);
  CHECK(set.complete());
  CHECK(set.ids().size() == kMost);
}

TEST_CASE("touch set: a few thousand blocks fit, however often they are named") {
  const Blocks blocks(3000);
  TouchSet set(*blocks.arena);
  for (int round = 0; round < 20; ++round) {
    for (const std::uint64_t at : blocks.addresses) set.add(at);
  }
  CHECK(set.complete());
  CHECK(std::set<runtime::BlockId>(set.ids().begin(), set.ids().end()).size() == 3000);
}

TEST_CASE("touch set: with more blocks than there is room for, the set says that it is not complete") {
  const Blocks blocks(TouchSet::kRoom + 1);
  TouchSet set(*blocks.arena);
  for (const std::uint64_t at : blocks.addresses) set.add(at);
  CHECK_FALSE(set.complete());
  set.add(blocks.addresses.front());
  CHECK_FALSE(set.complete());
  CHECK_FALSE(set.empty());
}

}  // namespace tidepool::shim
