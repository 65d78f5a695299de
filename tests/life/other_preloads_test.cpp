// Other tools in LD_PRELOAD, in front of the library and behind it: both do what they do alone.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

struct Tool {
  std::string library;  ///< as the loader finds it, or a path
  std::vector<std::pair<std::string, std::string>> variables;
};

const Tool kTools[] = {
    {"libeatmydata.so", {}},
    {"/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", {{"FAKETIME", "-15d"}}},
    // A clock that stands still, the one that only goes forward included.
    {"/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", {{"FAKETIME", "2020-01-01 00:00:00"}}},
    {"/usr/libexec/coreutils/libstdbuf.so", {{"_STDBUF_O", "0"}}},
    // ASan wants to be first, unless it is told otherwise.
    {"libasan.so.8", {{"ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"}}},
};

Outcome run_with(const Tool& tool, bool is_in_front, const std::vector<std::string>& program,
                 const std::string& budget) {
  const std::string library = built("lib/libtidepool.so");
  auto variables = tool.variables;
  variables.emplace_back("LD_PRELOAD",
                         is_in_front ? tool.library + ":" + library : library + ":" + tool.library);
  variables.emplace_back("TIDEPOOL_DEVICE_BUDGET", budget);
  std::vector<std::string> words = {built("bin/simgpu"), "--device", "h100", "--"};
  words.insert(words.end(), program.begin(), program.end());
  const Outcome got = run({words, "", variables, false, false});
  CHECK(got.err.find("cannot be preloaded") == std::string::npos);
  return got;
}

}  // namespace

TEST_CASE("other preloads: doors, answers and forks are the same, in either order", "[plain]") {
  for (const Tool& tool : kTools) {
    for (const bool is_in_front : {true, false}) {
      for (const char* which : {"dlsym", "lookup", "memory", "fork_after_start"}) {
        const Outcome got = run_with(tool, is_in_front, {built("tests/door_probe"), which}, "32MiB");
        INFO(tool.library << (is_in_front ? " in front, " : " behind, ") << which << ": " << got.err);
        CHECK(got.code() == 0);
        CHECK(got.out == "as expected\n");
      }
    }
  }
}

TEST_CASE("other preloads: a program trains in less memory to the same result, in either order", "[plain]") {
  const std::vector<std::string> program = {built("bin/train_mlp"), "--steps", "3"};
  const Outcome plain =
      run({{built("bin/simgpu"), "--device", "h100", "--", program[0], program[1], program[2]},
           "",
           {},
           false,
           false});
  REQUIRE(plain.code() == 0);
  for (const Tool& tool : kTools) {
    for (const bool is_in_front : {true, false}) {
      const Outcome got = run_with(tool, is_in_front, program, "40MiB");
      INFO(tool.library << (is_in_front ? " in front: " : " behind: ") << got.err);
      CHECK(got.code() == 0);
      CHECK(got.out == plain.out);
    }
  }
}

}  // namespace tidepool::test
