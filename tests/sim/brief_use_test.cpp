// Memory that is named, and used for a while or not at all, goes on moving.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE("brief use: what streams, questions, refused calls and nodes name may leave again") {
  for (const char* way : {"value", "batch", "refused", "asked", "kernel", "memset", "memcpy"}) {
    for (const char* seed : {"1", "2"}) {
      INFO(way << ", seed " << seed);
      expect_same_output({built("tests/brief_use_job"), way}, seed, 24);
    }
  }
}

// Memory whose id was asked for may be registered for other devices next, so it stays.
TEST_CASE("brief use: a buffer id that cannot be told is an error, also among others") {
  const std::vector<std::string> job = {built("tests/brief_use_job"), "ids"};
  CHECK(run_on_device({}, {}, job).outcome.code() == 0);
  const DeviceRun got = run_on_device({}, {"--device-budget", "24MiB"}, job);
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.err.find("brief_use_job: id of block 6: error 2\n") != std::string::npos);
}

}  // namespace tidepool::test
