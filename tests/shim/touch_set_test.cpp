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
