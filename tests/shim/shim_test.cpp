// The preloaded library over the simulated device, seen by a program: the doors, the answers, the process.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

Outcome probe(const std::string& which, std::vector<std::string> options = {}) {
  std::vector<std::string> words = {TP_TEST_SIMGPU, "--device", "h100", "--", TP_TEST_TIDEPOOL, "run"};
  words.insert(words.end(), {"--device-budget", "32MiB"});
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", TP_TEST_DOOR_PROBE, which});
  return run({words, "", {}, false, false});
}

void expect_passes(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

}  // namespace

TEST_CASE("shim: dlsym hands out hooks for the driver's names and keeps its caller for all others") {
  expect_passes(probe("dlsym"));
}

TEST_CASE("shim: cuGetProcAddress keeps versions, twins and status, and returns itself") {
  expect_passes(probe("lookup"));
}

TEST_CASE("shim: switched off, lookups lead to the driver and nothing is limited") {
  expect_passes(probe("disabled", {"--disable"}));
}

TEST_CASE("shim: allocation, free and questions answer as the driver does, wherever the bytes are") {
  expect_passes(probe("memory", {"--check", "full"}));
}

TEST_CASE("shim: memory of a context of the program's own is passed through, with one message") {
  const Outcome got = probe("own_context");
  expect_passes(got);
  CHECK(got.err.find("TP1010") != std::string::npos);
}

TEST_CASE("shim: a fork after the start leaves the parent's memory alone") {
  expect_passes(probe("fork_after_start"));
}

TEST_CASE("shim: a child forked before the start is managed like any process") {
  expect_passes(probe("fork_before_start"));
}

}  // namespace tidepool::test
