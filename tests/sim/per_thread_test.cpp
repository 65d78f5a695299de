// Programs whose null stream is the calling thread's own.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE("per thread: the legacy stream is a barrier for the null stream of each thread") {
  for (int seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const DeviceRun got = run_on_device({"--seed", std::to_string(seed)}, {"--device-budget", "64MiB"},
                                        {built("tests/per_thread_job")});
    INFO(got.outcome.err);
    REQUIRE(got.outcome.code() == 0);
    CHECK(got.outcome.out == "0 wrong\n");
    CHECK(got.number("races", "total") == 0);
  }
}

}  // namespace tidepool::test
