// The functions of the CUDA runtime in front of those of the program: each caller reaches its own.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kFolder = built("tests/runtime_users");
const std::string kLibrary = built("lib/libtidepool.so");

Outcome probe(const std::string& which, std::vector<std::pair<std::string, std::string>> variables = {},
              const std::string& front = "", const std::string& behind = "") {
  ScratchFolder folder;
  std::string preload = preload_first();
  for (const std::string& library : {front, kLibrary, behind}) {
    if (!library.empty()) preload += (preload.empty() ? "" : ":") + library;
  }
  variables.emplace_back("LD_PRELOAD", preload);
  variables.emplace_back("TIDEPOOL_RUN_DIR", folder.path());
  variables.emplace_back("TIDEPOOL_DEVICE_BUDGET", "32MiB");
  return run({{built("bin/simgpu"), "--device", "h100", "--", built("tests/runtime_probe"), which, kFolder},
              "",
              variables,
              false,
              false});
}

void expect_passes(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

}  // namespace

// Orion and torch_memory_saver hook one runtime; a process can hold two. smolvm PR#638: a stand-in for
// libcudart without its versions.
TEST_CASE("runtime door: with two runtimes in a process each caller reaches its own") {
  expect_passes(probe("two_runtimes"));
}

TEST_CASE("runtime door: a library without a runtime reaches the one that the loader would give it") {
  expect_passes(probe("no_runtime_of_its_own"));
}

TEST_CASE("runtime door: libraries and runtimes that are unloaded are forgotten") {
  expect_passes(probe("reloaded"));
}

TEST_CASE("runtime door: more modules than are remembered reach their own runtime, and that is said once") {
  const Outcome got = probe("many_modules");
  expect_passes(got);
  const std::string said =
      " W TP1020 more than 512 functions of CUDA's libraries have been called, each module's counted for "
      "itself. "
      "Further ones are looked up at each call, which takes some microseconds and changes nothing else. "
      "Report "
      "a program that this makes slow.\n";
  const std::size_t at = got.err.find(said);
  CHECK(at != std::string::npos);
  CHECK(got.err.find("TP1020", at + said.size()) == std::string::npos);
  CHECK(probe("two_runtimes").err.find("TP1020") == std::string::npos);
}

TEST_CASE("runtime door: a call that failed or was left marks nothing, an inner one is the outer one's") {
  expect_passes(probe("marks"));
}

TEST_CASE("runtime door: switched off, calls jump on and leave no frame") {
  expect_passes(probe("disabled", {{"TIDEPOOL_DISABLE", "1"}}));
}

// TMS#88, sglang PR#40648: NCCL reads and writes what no argument of a kernel shows.
TEST_CASE("runtime door: what NCCL is given is on the device, however it is called, and stays there") {
  expect_passes(probe("nccl", {{"TIDEPOOL_CHECK", "full"}}));
}

TEST_CASE("runtime door: another preloaded library with the same functions is passed, in either order") {
  const std::string other = kFolder + "/libother_preload.so";
  expect_passes(probe("other_preload", {}, other, ""));
  expect_passes(probe("other_preload", {}, "", other));
}

}  // namespace tidepool::test
