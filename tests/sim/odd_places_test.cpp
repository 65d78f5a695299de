// Pointers at places where few programs have them.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE(
    "odd places: memory that a pointer beside it, a packed struct or an offset leads to keeps its bytes") {
  for (const char* way :
       {"one-based", "far-in-front", "backwards", "far-behind", "packed", "rows", "layers", "graph"}) {
    for (const char* seed : {"1", "2", "3"}) {
      INFO(way << ", seed " << seed);
      const std::vector<std::string> job = {built("tests/odd_places_job"), way};
      const DeviceRun plain = run_on_device({"--seed", seed}, {}, job);
      INFO(plain.outcome.err);
      REQUIRE(plain.outcome.code() == 0);
      for (const char* check : {"off", "unmap"}) {
        INFO(check);
        const DeviceRun got =
            run_on_device({"--seed", seed}, {"--device-budget", "20MiB", "--check", check}, job);
        INFO(got.outcome.err);
        CHECK(got.outcome.code() == 0);
        CHECK(got.outcome.out == plain.outcome.out);
        CHECK(got.number("memory", "physical_peak_bytes") <= 20 * (std::uint64_t{1} << 20));
      }
    }
  }
}

}  // namespace tidepool::test
