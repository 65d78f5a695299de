// After work on the device has ended with an error, every call says so, as it does without Tidepool.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

Outcome probe(const std::vector<std::string>& under) {
  std::vector<std::string> words = {built("bin/simgpu"), "--"};
  words.insert(words.end(), under.begin(), under.end());
  words.push_back(built("tests/lost_probe"));
  return run({words, "", {}, false, false});
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t times = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
  return times;
}

}  // namespace

TEST_CASE("lost device: every door answers what the driver does") {
  const Outcome bare = probe({});
  INFO(bare.err);
  REQUIRE(bare.code() == 0);
  REQUIRE(bare.out.find("cuMemAlloc(&at, kBytes) 700 700\n") != std::string::npos);
  REQUIRE(count(bare.out, "\n") > 60);
  using Words = std::vector<std::string>;
  for (const Words& options :
       {Words{"--device-budget", "1GiB"}, Words{"--device-budget", "20MiB"},
        Words{"--device-budget", "20MiB", "--check", "full"}, Words{"--mode", "observe"}}) {
    Words under = {built("bin/tidepool"), "run"};
    under.insert(under.end(), options.begin(), options.end());
    under.emplace_back("--");
    const Outcome got = probe(under);
    INFO(options[1] << "\n" << got.err);
    CHECK(got.code() == 0);
    CHECK(got.out == bare.out);
    CHECK(count(got.err, "TP3001") == 0);
    CHECK(count(got.err, "TP3002") == 0);
    CHECK(count(got.err, "TP3005") <= 1);
  }
}

}  // namespace tidepool::test
