#include "tools/probe/sharing.h"

#include <catch2/catch.hpp>

namespace tidepool::probe {
namespace {

constexpr std::int64_t kShared = 1000;
constexpr std::int64_t kOverhead = 400;

std::string returned(std::int64_t at_death, std::int64_t at_release, std::int64_t overhead = kOverhead) {
  return memory_returns_at({kShared, overhead, at_death, at_release});
}

}  // namespace

TEST_CASE("sharing: memory returns when gains say so, within a tenth of what was shared") {
  REQUIRE(returned(400, 1000) == "release by importer");
  REQUIRE(returned(1400, 0) == "death of exporter");
  REQUIRE(returned(400, 0) == "neither");
  REQUIRE(returned(300, 1100) == "release by importer");
  REQUIRE(returned(1500, -100) == "death of exporter");
  REQUIRE(returned(0, 1000, 0) == "release by importer");
}

TEST_CASE("sharing: what fits nothing is unclear") {
  REQUIRE(returned(0, 0) == "unclear");        // not even the exporter's own came back
  REQUIRE(returned(400, 500) == "unclear");    // half
  REQUIRE(returned(900, 500) == "unclear");    // half at each
  REQUIRE(returned(1400, 1000) == "unclear");  // twice
  REQUIRE(returned(400, 1101) == "unclear");
}

TEST_CASE("sharing: an exporter's context as large as what is shared is not taken for it") {
  REQUIRE(returned(1000, 0, 1000) == "neither");
  REQUIRE(returned(2000, 0, 1000) == "death of exporter");
}

}  // namespace tidepool::probe
