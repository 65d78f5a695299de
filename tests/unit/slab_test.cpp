#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "allocator/slab_map.h"

namespace tidepool::runtime {

TEST_CASE("slab: random places never overlap, are found from inside, and merge again") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    SlabMap slab;
    std::map<std::size_t, Bytes> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.empty() || random() % 2 == 0) {
        const Bytes size(1 + random() % (std::uint64_t{1} << (random() % 20)));
        const std::size_t unit = slab.take(size);
        if (unit == SlabMap::kNone) continue;
        const std::size_t end = unit + size.round_up(SlabMap::kUnit) / SlabMap::kUnit;
        REQUIRE(end <= SlabMap::kUnits);
        const auto next = live.lower_bound(unit);
        if (next != live.end()) REQUIRE(next->first >= end);
        if (next != live.begin()) {
          const auto before = std::prev(next);
          REQUIRE(before->first + before->second.round_up(SlabMap::kUnit) / SlabMap::kUnit <= unit);
        }
        live.emplace(unit, size);
        const SlabMap::Place found = slab.find(end - 1);
        REQUIRE(found.unit == unit);
        REQUIRE(found.size == size);
      } else {
        const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        REQUIRE(slab.give(victim->first));
        REQUIRE_FALSE(slab.give(victim->first));
        REQUIRE(slab.find(victim->first).size == Bytes());
        live.erase(victim);
      }
    }
    for (const auto& [unit, size] : live) REQUIRE(slab.give(unit));
    REQUIRE(slab.empty());
    REQUIRE(slab.take(Arena::kChunk) == 0);
  }
}

TEST_CASE("slab: what is not the start of a live place is refused") {
  SlabMap slab;
  CHECK_FALSE(slab.give(0));
  const std::size_t unit = slab.take(KiB(4));
  CHECK_FALSE(slab.give(unit + 1));
  CHECK_FALSE(slab.give(SlabMap::kUnits));
  CHECK(slab.find(unit + 8).size == Bytes());
  CHECK(slab.give(unit));
}

}  // namespace tidepool::runtime
