// The largest of many sizes, without a list of them.

#include "allocator/size_census.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

namespace tidepool::runtime {

TEST_CASE("sizes: the largest is known, at most an eighth too large, while others come and go") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    SizeCensus census;
    std::vector<Bytes> sizes;
    for (int step = 0; step < 300; ++step) {
      if (sizes.empty() || random() % 5 < 3) {
        sizes.emplace_back(1 + (random() >> (20 + random() % 43)));
        census.add(sizes.back());
      } else {
        const std::size_t victim = random() % sizes.size();
        census.remove(sizes[victim]);
        sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(victim));
      }
      const Bytes largest = sizes.empty() ? Bytes() : *std::max_element(sizes.begin(), sizes.end());
      REQUIRE(census.largest() >= largest);
      REQUIRE(census.largest().count() <= largest.count() + largest.count() / 8);
    }
  }
}

TEST_CASE("sizes: a power of two is its own largest") {
  for (unsigned power = 0; power < 48; ++power) {
    SizeCensus census;
    census.add(Bytes(std::uint64_t{1} << power));
    CHECK(census.largest() == Bytes(std::uint64_t{1} << power));
  }
}

}  // namespace tidepool::runtime
