// Threads that evict each other through the real layering: runtime, shim, driver.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kStress = built("tests/stress");
const int kSeeds = sanitized() ? 2 : 12;
const std::string kSteps = sanitized() ? "50" : "120";

Outcome stress(int seed, int threads, const char* budget) {
  std::vector<std::string> words = {kSimgpu, "--device", "h100", "--seed", std::to_string(seed), "--"};
  if (budget != nullptr) {
    words.insert(words.end(), {kTidepool, "run", "--device-budget", budget, "--check", "full", "--"});
  }
  words.insert(words.end(), {kStress, std::to_string(seed), std::to_string(threads), kSteps});
  return run({words, "", {}, false, false});
}

void expect_right(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "wrong words: 0\n");
  CHECK(got.err.find("TP3002") == std::string::npos);
}

}  // namespace

TEST_CASE("stress: the program itself is right") {
  expect_right(stress(1, 3, nullptr));
}

TEST_CASE("stress: one thread in a third of its memory") {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    expect_right(stress(seed, 1, "16MiB"));
  }
}

TEST_CASE("stress: threads that push out each other's blocks") {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    expect_right(stress(seed, 4, "32MiB"));
  }
}

}  // namespace tidepool::test
