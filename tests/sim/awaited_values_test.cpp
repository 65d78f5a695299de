// Streams that wait for values: Tidepool brings no order between streams that closes a circle with theirs.

#include <catch2/catch.hpp>

#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE("awaited values: memory that both streams read leaves and comes back") {
  for (const char* way : {"value", "batch", "device", "used"}) {
    for (const std::uint64_t budget : {20, 30, 33}) {
      INFO(way << " in " << budget << " MiB");
      expect_same_output({built("tests/awaited_values_job"), way}, "1", budget);
    }
  }
}

TEST_CASE("awaited values: memory that the waiting stream has freed is not waited for") {
  for (const char* way : {"free", "free_forbidden", "free_plain"}) {
    for (const std::uint64_t budget : {20, 34}) {
      INFO(way << " in " << budget << " MiB");
      expect_same_output({built("tests/awaited_values_job"), way}, "2", budget);
    }
  }
}

}  // namespace tidepool::test
