#include "tools/simgpu/ordering/range_list.h"

#include <bitset>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

using simgpu::ordering::RangeList;

TEST_CASE("range list: what blocks declare is merged, and too many pieces are said to be coarse") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    RangeList list;
    std::bitset<2000> bytes[2];
    for (int i = 0; i < 400; ++i) {
      const std::uint64_t low = random() % 1900;
      const std::uint64_t count = random() % (seed % 2 == 0 ? 3 : 60);
      const bool write = random() % 2 == 0;
      list.add(low, count, write);
      for (std::uint64_t b = low; b < low + count; ++b) bytes[write ? 1 : 0].set(b);
    }
    std::bitset<2000> got[2];
    const RangeList::Range* before = nullptr;
    for (const RangeList::Range& range : list.merged()) {
      CHECK((before == nullptr || before->write != range.write || before->high < range.low));
      for (std::uint64_t b = range.low; b < range.high; ++b) got[range.write ? 1 : 0].set(b);
      before = &range;
    }
    CHECK(got[0] == bytes[0]);
    CHECK(got[1] == bytes[1]);
    CHECK_FALSE(list.coarse());
  }
  RangeList list;
  for (std::uint64_t i = 0; i < 5000; ++i) list.add(i * 100, 10, false);
  std::uint64_t covered = 0;
  for (const RangeList::Range& range : list.merged()) {
    CHECK(range.low % 100 == 0);
    CHECK(range.high % 100 == 10);
    covered += range.high - range.low;
  }
  CHECK(covered >= 50'000);
  CHECK(list.coarse());
  list.clear();
  CHECK(list.merged().empty());
  CHECK_FALSE(list.coarse());
}
