// Forks, other programs, the end, threads that go: nothing hangs, nothing is lost, and every exit status is
// the program's own.

#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kProbe = built("tests/life_probe");

Outcome on_simgpu(std::vector<std::string> words, int seed = 1, const std::string& mode = "manage") {
  std::vector<std::string> all = {built("bin/simgpu"),
                                  "--device",
                                  "h100",
                                  "--seed",
                                  std::to_string(seed),
                                  "--",
                                  built("bin/tidepool"),
                                  "run",
                                  "--mode",
                                  mode,
                                  "--device-budget",
                                  "32MiB",
                                  "--",
                                  kProbe};
  all.insert(all.end(), words.begin(), words.end());
  return run({all, "", {}, false, false});
}

/// Over a driver that only records: all that is there beside the program is the library.
Outcome on_recorder(std::vector<std::string> words, const std::string& faults = "",
                    const std::string& mode = "manage") {
  words.insert(words.begin(), kProbe);
  std::vector<std::pair<std::string, std::string>> variables = {
      {"LD_PRELOAD", built("lib/libtidepool.so")},
      {"LD_LIBRARY_PATH", built("lib/recording_driver")},
      {"TIDEPOOL_DEVICE_BUDGET", "32MiB"},
      {"TIDEPOOL_MODE", mode}};
  if (!faults.empty()) variables.emplace_back("TP_RECORDING_FAULTS", faults);
  return run({words, "", variables, false, false});
}

void expect_passes(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

}  // namespace

// pytorch#75147, #17199: children of a process whose threads hold locks. What a child calls in the driver is
// answered by one that has none, and that knows a version of cuMemAlloc that the table lacks.
TEST_CASE("life: children that are forked while threads are in hooks do not hang", "[plain]") {
  expect_passes(on_recorder({"fork_while_busy", "recorded"}, "newer=cuMemAlloc"));
}

TEST_CASE("life: a child ends like the thread that forked it, without a call of the driver", "[plain]") {
  expect_passes(on_recorder({"thread_forks", "recorded"}));
  expect_passes(on_simgpu({"thread_forks"}));
}

TEST_CASE("life: neither do they where memory is only watched", "[plain]") {
  expect_passes(on_recorder({"fork_while_busy", "recorded"}, "newer=cuMemAlloc", "observe"));
  expect_passes(on_simgpu({"fork_while_busy"}, 1, "observe"));
  expect_passes(on_simgpu({"spawn_while_busy"}, 1, "observe"));
}

TEST_CASE("life: a thread that is cancelled in the driver ends after its call, and holds nothing",
          "[plain]") {
  for (const std::string entry : {"cuMemcpyDtoH_v2", "cuLaunchKernel"}) {
    INFO(entry);
    expect_passes(on_recorder({"cancelled", entry}, "slow=" + entry + ":400"));
  }
}

TEST_CASE("life: a data loader's children live and end while the parent trains") {
  for (int seed = 1; seed <= 3; ++seed) expect_passes(on_simgpu({"fork_while_busy"}, seed));
}

TEST_CASE("life: programs are started by spawn, vfork, system and popen while threads are in hooks") {
  expect_passes(on_simgpu({"spawn_while_busy"}));
}

TEST_CASE("life: a program that is started by exec is managed from its start") {
  expect_passes(on_simgpu({"exec"}));
}

TEST_CASE("life: children that use the device themselves are managed") {
  const Outcome got = on_simgpu({"spawn_users"});
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\nas expected\nas expected\nas expected\n");
  CHECK(got.err.find("4 processes used CUDA") != std::string::npos);
}

// kvcached (signal handlers that were clobbered), kvcached#371 (a helper thread against the GIL),
// vllm PR#51317 (names that stay in /dev/shm).
TEST_CASE("life: the library has no thread, no signal handler and no name of its own in a program",
          "[plain]") {
  expect_passes(on_recorder({"guest", "recorded"}));
}

// HAMi#759, k8s-device-plugin#1118: programs under MPS share one fate, and blame the shim.
TEST_CASE("life: a device that is shared by MPS is named once", "[plain]") {
  const Outcome got = on_recorder({"guest", "recorded"}, "mps=1");
  CHECK(got.code() == 0);
  const auto first = got.err.find("TP1016 device 0 is shared by MPS");
  INFO(got.err);
  CHECK(first != std::string::npos);
  CHECK(got.err.find("TP1016", first + 1) == std::string::npos);
  CHECK(on_recorder({"guest", "recorded"}).err.empty());
}

// HAMi#1662: a lock of all processes, and a minute until hundreds have started.
TEST_CASE("life: a hundred processes start at once", "[plain]") {
  const Outcome got = on_recorder({"crowd"});
  INFO(got.err);
  CHECK(got.code() == 0);
}

TEST_CASE("life: the library can be opened and closed by hand") {
  expect_passes(
      run({{built("bin/simgpu"), "--device", "h100", "--", kProbe, "by_hand", built("lib/libtidepool.so")},
           "",
           {{"TIDEPOOL_DEVICE_BUDGET", "32MiB"}},
           false,
           false}));
}

TEST_CASE("life: threads come and go without leaving anything behind") {
  expect_passes(on_simgpu({"threads_come_and_go"}));
}

// HAMi-core#248, HAMi#2500 (SIGKILL), TMS#99 (an exit inside the library), pytorch and others (segfaults at
// the end).
TEST_CASE("life: however a program ends, its status and output are its own and the summary is there") {
  const std::pair<const char*, int> ends[] = {
      {"exit", 5},           {"_exit", 5},          {"quick_exit", 5},
      {"abort", -SIGABRT},   {"SIGTERM", -SIGTERM}, {"SIGKILL", -SIGKILL},
      {"SIGSEGV", -SIGSEGV}, {"exit_in_thread", 5}, {"pthread_exit", 5}};
  for (const auto& [how, code] : ends) {
    const Outcome got = on_simgpu({"end", how});
    INFO(how << ": " << got.err);
    CHECK(got.code() == code);
    const bool is_flushed = std::string(how) == "exit" || std::string(how) == "exit_in_thread" ||
                            std::string(how) == "pthread_exit";
    CHECK(got.out == (is_flushed ? "text without end of line" : ""));
    CHECK(got.err.find("tidepool: done in") != std::string::npos);
    CHECK(got.err.find(" 32.0 MiB (peak ") != std::string::npos);
  }
}

}  // namespace tidepool::test
