// Pointers at places where few programs have them.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE(
    "odd places: memory that a pointer beside it, a packed struct or an offset leads to keeps its bytes") {
  for (const char* way : {"one-based", "far-in-front", "backwards", "far-behind", "packed", "packed-table",
                          "packed-bytes", "rows", "layers", "graph"}) {
    for (const char* seed : {"1", "2", "3"}) {
      INFO(way << ", seed " << seed);
      expect_same_output({built("tests/odd_places_job"), way}, seed, 20);
    }
  }
}

}  // namespace tidepool::test
