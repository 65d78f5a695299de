#include <catch2/catch.hpp>

#include "tests/simgpu_digest/device.h"

using namespace digest_test;

namespace {

std::vector<dg::Span> written(const dg::ExtentMap& map, dg::Span span, std::uint64_t call = 1000) {
  std::vector<dg::Span> parts;
  map.written_parts(span, call, &parts);
  return parts;
}

}  // namespace

TEST_CASE("span set: spans that touch are one, and removing cuts") {
  dg::SpanSet set;
  set.add({10, 20});
  set.add({30, 40});
  set.add({20, 30});
  set.remove({15, 18});
  std::vector<dg::Span> parts;
  set.parts({0, 100}, &parts);
  CHECK(parts == std::vector<dg::Span>{{10, 15}, {18, 40}});
  parts.clear();
  set.parts({12, 19}, &parts);
  CHECK(parts == std::vector<dg::Span>{{12, 15}, {18, 19}});
}

TEST_CASE("span set: agrees with a plain list of bytes") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    dg::SpanSet set;
    std::vector<bool> bytes(64, false);
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t begin = random.below(64);
      const dg::Span span{begin, begin + random.below(64 - begin + 1)};
      const bool add = random.chance(60);
      add ? set.add(span) : set.remove(span);
      for (std::uint64_t i = span.begin; i < span.end; ++i) bytes[i] = add;
      std::vector<dg::Span> parts;
      set.parts({0, 64}, &parts);
      std::vector<bool> got(64, false);
      for (const dg::Span& part : parts) {
        REQUIRE(part.begin < part.end);
        for (std::uint64_t i = part.begin; i < part.end; ++i) got[i] = true;
      }
      REQUIRE(got == bytes);
      for (std::size_t i = 1; i < parts.size(); ++i) REQUIRE(parts[i - 1].end < parts[i].begin);
    }
  }
}

TEST_CASE("extents: memory is found from its allocation to its release, by the number of the call") {
  dg::ExtentMap map;
  map.add(1000, 100, 0, 5);
  map.remove(1000, 9);
  CHECK_FALSE(map.find(1000, 4).has_value());
  CHECK(map.find(1000, 5).has_value());
  CHECK(map.find(1099, 8).has_value());
  CHECK_FALSE(map.find(1100, 8).has_value());
  CHECK_FALSE(map.find(1050, 9).has_value());
}

TEST_CASE("extents: new memory takes the place of old and starts unwritten") {
  dg::ExtentMap map;
  map.add(1000, 100, 0, 1);
  map.wrote({1000, 1100}, 2);
  map.add(1040, 100, 0, 3);
  CHECK(map.find(1050, 2)->base == 1000);
  CHECK(map.find(1050, 3)->base == 1040);
  CHECK_FALSE(map.find(1010, 3).has_value());
  CHECK(written(map, {1040, 1140}).empty());
  CHECK(written(map, {1000, 1100}, 2) == std::vector<dg::Span>{{1000, 1100}});
  map.forget(3);
  CHECK_FALSE(map.find(1010, 2).has_value());
}

TEST_CASE("extents: late work writes to the memory that was alive when it was called") {
  dg::ExtentMap map;
  map.add(1000, 100, 0, 1);
  map.add(1000, 100, 0, 3);
  map.wrote({1000, 1100}, 2);
  CHECK(written(map, {1000, 1100}).empty());
  map.wrote({1000, 1010}, 4);
  CHECK(written(map, {1000, 1100}) == std::vector<dg::Span>{{1000, 1010}});
}

TEST_CASE("extents: a span over several allocations and gaps marks each") {
  dg::ExtentMap map;
  map.add(1000, 100, 0, 1);
  map.add(1200, 100, 0, 2);
  map.add(1400, 100, 0, 9);
  map.wrote({900, 1450}, 5);
  CHECK(written(map, {1000, 1100}) == std::vector<dg::Span>{{1000, 1100}});
  CHECK(written(map, {1200, 1300}) == std::vector<dg::Span>{{1200, 1300}});
  CHECK(written(map, {1400, 1500}).empty());  // not yet alive at the call
}

TEST_CASE("extents: a copy of memory that was never written does not write") {
  dg::ExtentMap map;
  map.add(1000, 100, 0, 1);
  map.add(2000, 100, 0, 1);
  map.wrote({1000, 1050}, 2);
  map.wrote({2000, 2100}, 2);
  map.copied(2010, {1020, 1080}, 3);
  CHECK(written(map, {2000, 2100}) == std::vector<dg::Span>{{2000, 2040}, {2070, 2100}});
}

TEST_CASE("extents: a unit ends at the next multiple and at the ends of the memory") {
  dg::ExtentMap map;
  map.add(1024, 1200, 512, 1);
  CHECK(map.find(1024, 1)->bytes == 512);
  CHECK(map.find(1600, 1)->base == 1536);
  CHECK(map.find(2223, 1)->base == 2048);
  CHECK(map.find(2223, 1)->end() == 2224);
  CHECK_FALSE(map.find(2224, 1).has_value());
}

TEST_CASE("extents: a part of a pointer that is copied does not count") {
  dg::ExtentMap map;
  alignas(8) const std::uint64_t memory[8] = {};
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  map.add(base, 32, 0, 1);
  map.add(base + 32, 32, 0, 1);
  map.wrote({base, base + 64}, 2);
  map.wrote_pointers(base + 8, 1, 2);
  map.copied(base + 32, {base, base + 12}, 3);
  CHECK(written(map, {base + 32, base + 64}) ==
        std::vector<dg::Span>{{base + 32, base + 40}, {base + 44, base + 64}});
  map.copied(base + 32, {base + 12, base + 20}, 3);
  CHECK(written(map, {base + 32, base + 64}) ==
        std::vector<dg::Span>{{base + 36, base + 40}, {base + 44, base + 64}});
  map.copied(base + 33, {base + 8, base + 16}, 3);
  CHECK(written(map, {base + 32, base + 64}) == std::vector<dg::Span>{{base + 44, base + 64}});
  CHECK(map.pointers_known() == 1);
  map.copied(base + 48, {base + 8, base + 16}, 3);
  CHECK(map.pointers_known() == 2);
}

TEST_CASE("extents: a pointer is gone once one of its bytes is overwritten") {
  dg::ExtentMap map;
  alignas(8) const std::uint64_t memory[8] = {};
  const auto base = reinterpret_cast<std::uint64_t>(memory);
  map.add(base, sizeof memory, 0, 1);
  map.wrote_pointers(base, 4, 2);
  CHECK(map.pointers_known() == 4);
  map.wrote({base + 15, base + 16}, 3);
  CHECK(map.pointers_known() == 3);
  map.wrote({base + 16, base + 25}, 4);
  CHECK(map.pointers_known() == 1);
  // What is left of the pointers that were hit is the same in no two runs.
  CHECK(written(map, {base, base + 32}) == std::vector<dg::Span>{{base, base + 8}, {base + 15, base + 25}});
  map.remove(base, 5);
  CHECK(map.pointers_known() == 0);
}

TEST_CASE("extent map: what is alive now is found as for a call that is still to come") {
  dg::ExtentMap map;
  map.add(4096, 512, 0, 1);
  CHECK(map.find(4096, dg::ExtentMap::kNever).has_value());
  map.remove(4096, 5);
  CHECK(map.find(4096, 4).has_value());
  CHECK_FALSE(map.find(4096, dg::ExtentMap::kNever).has_value());
}
