// Whose memory is it? By the module that asks for it.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

Outcome probe(const std::string& which, const std::string& mode = "manage") {
  ScratchFolder folder;
  return run({{built("bin/simgpu"), "--device", "h100", "--", built("bin/tidepool"), "run", "--device-budget",
               "32MiB", "--mode", mode, "--check", "full", "--run-dir", folder.path(), "--",
               built("tests/owner_probe"), which, built("tests/owners")},
              "",
              {},
              false,
              false});
}

void expect_passes(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

}  // namespace

// HAMi-core #169, NCCL's own buffers behind a shim: what a CUDA library allocates is left to the driver.
TEST_CASE("owner: what a CUDA library allocates is the driver's, and is counted until it is freed") {
  expect_passes(probe("by_name"));
}

// HAMi-core#169, #172, #187: NCCL creates memory by handle, some of it for devices or places that are not
// there. TMS#24, pytorch#147851, #165419: expandable segments pass by.
TEST_CASE("owner: memory by handle is counted while a handle or a mapping holds it") {
  expect_passes(probe("handles"));
}

TEST_CASE("owner: a module that comes to the place of an unloaded one is taken for itself") {
  expect_passes(probe("unloaded"));
}

TEST_CASE("owner: where memory is only watched, the program's is told from the libraries'") {
  expect_passes(probe("observed", "observe"));
}

TEST_CASE("owner: the memory of a context is counted no longer than the context lives") {
  expect_passes(probe("contexts"));
}

TEST_CASE("owner: a forked child has none of its parent's memory") {
  expect_passes(probe("forked"));
}

}  // namespace tidepool::test
