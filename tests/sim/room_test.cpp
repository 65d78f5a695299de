// Memory that the driver takes for itself while all of the device is full of memory that can leave.

#include <catch2/catch.hpp>

#include "tests/sim/device_run.h"

namespace tidepool::test {

TEST_CASE("room: whichever call has the driver load a module, memory that can leave makes room for it") {
  for (const char* job : {"room_job", "managed_room_job"}) {
    for (const char* word :
         {"launch", "to-symbol", "symbol-address", "managed-address", "function", "attributes",
          "set-attribute", "occupancy", "capture", "capture-thread", "capture-relaxed", "node", "any-node"}) {
      if (std::string_view(word) == "managed-address" && std::string_view(job) == "room_job") continue;
      INFO(job << ' ' << word);
      const std::vector<std::string> program = {built("tests/") + job, word};
      const DeviceRun plain = run_on_device({}, {}, program);
      INFO(plain.outcome.err);
      REQUIRE(plain.outcome.code() == 0);
      // 64 MiB of blocks, 48 of the module, and where it has one a managed variable.
      const DeviceRun full = run_on_device({"--memory", "96MiB"}, {}, program);
      CHECK(full.outcome.code() == 1);
      const DeviceRun got = run_on_device({"--memory", "96MiB"}, {"--check", "full"}, program);
      INFO(got.outcome.err);
      CHECK(got.outcome.code() == 0);
      CHECK(got.outcome.out == plain.outcome.out);
    }
  }
}

}  // namespace tidepool::test
