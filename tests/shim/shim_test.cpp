// The preloaded library over the simulated device, seen by a program: the doors, the answers, the process.

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kLibrary = built("lib/libtidepool.so");
const std::string kDoorProbe = built("tests/door_probe");
const std::string kElfProbe = built("tests/elf_probe");
const std::string kEarlyProbe = built("tests/early_probe");

Outcome probe(const std::string& which, std::vector<std::string> options = {}, int seed = 1) {
  std::vector<std::string> words = {kSimgpu, "--device", "h100", "--seed", std::to_string(seed),
                                    "--",    kTidepool,  "run"};
  words.insert(words.end(), {"--device-budget", "32MiB"});
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", kDoorProbe, which});
  return run({words, "", {}, false, false});
}

/// The library in LD_PRELOAD, without `tidepool run`.
Outcome bare(const std::vector<std::string>& program,
             std::vector<std::pair<std::string, std::string>> variables) {
  std::string preload = preload_first();
  if (!preload.empty()) preload += ':';
  variables.emplace_back("LD_PRELOAD", preload + kLibrary);
  std::vector<std::string> words = {kSimgpu, "--memory", "1GiB", "--"};
  words.insert(words.end(), program.begin(), program.end());
  return run({words, "", variables, false, false});
}

void expect_passes(const Outcome& got) {
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

/// On neither of two devices.
void expect_nothing_left(const std::string& report) {
  const std::string_view nothing = "\"physical_now_bytes\": 0,";
  const std::size_t first = report.find(nothing);
  CHECK(first != std::string::npos);
  CHECK(report.find(nothing, first + 1) != std::string::npos);
}

}  // namespace

// HAMi-core PR#215 (a prefix of cu took in cudnnCreate), #279 (the second RTLD_NEXT), #315 (whose next?).
TEST_CASE("shim: dlsym hands out hooks for the driver's names and keeps its caller for all others") {
  expect_passes(probe("dlsym"));
}

// HAMi#1055 (symbolStatus), HAMi-core#233 and #320 (wrong version of an entry), nvshare#11 (only one of both
// lookups).
TEST_CASE("shim: cuGetProcAddress keeps versions, twins and status, and returns itself") {
  expect_passes(probe("lookup"));
}

TEST_CASE("shim: cudaGetDriverEntryPointByVersion leads to hooks as well") {
  expect_passes(probe("entry_point"));
}

// HAMi-core#52, #59: hangs at the start.
TEST_CASE("shim: the first call does not wait for the loader while others wait for it") {
  expect_passes(run({{kSimgpu, "--device", "h100", "--", kTidepool, "run", "--", built("tests/loader_probe"),
                      built("tests/libloader_library.so")},
                     "",
                     {},
                     false,
                     false}));
}

// HAMi#2760: hooks that stay when the shim is off.
TEST_CASE("shim: switched off, lookups lead to the driver and nothing is limited") {
  expect_passes(
      bare({kDoorProbe, "disabled"}, {{"TIDEPOOL_DISABLE", "1"}, {"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
  expect_passes(
      bare({kElfProbe, "1073741824"}, {{"TIDEPOOL_DISABLE", "1"}, {"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
  expect_passes(
      bare({kDoorProbe, "disabled"}, {{"TIDEPOOL_MODE", "off"}, {"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
}

TEST_CASE("shim: what is only watched has the whole device and answers of the driver's own") {
  expect_passes(
      bare({kElfProbe, "1073741824"}, {{"TIDEPOOL_MODE", "observe"}, {"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
}

TEST_CASE("shim: without `tidepool run`, the library in LD_PRELOAD does the same") {
  expect_passes(bare({kDoorProbe, "memory"}, {{"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
  expect_passes(bare({kElfProbe, "33554432"}, {{"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
}

TEST_CASE("shim: CUDA calls in a library's constructor find the options") {
  expect_passes(bare({kEarlyProbe, "hooked", "33554432"}, {{"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
  expect_passes(bare({kEarlyProbe, "plain", "1073741824"},
                     {{"TIDEPOOL_DISABLE", "1"}, {"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
}

// HAMi-core#63, TMS#56: what runs at the end.
TEST_CASE("shim: a library that frees in its destructor, after ours has run, is served") {
  expect_passes(bare({kEarlyProbe, "hooked", "33554432", "at-exit"}, {{"TIDEPOOL_DEVICE_BUDGET", "32MiB"}}));
}

TEST_CASE("shim: a wrong option under bare LD_PRELOAD is said, and the program runs unmanaged") {
  const Outcome got = bare({kElfProbe, "1073741824"}, {{"TIDEPOOL_DEVICE_BUDGET", "lots"}});
  expect_passes(got);
  CHECK(got.err.find("TP1003") != std::string::npos);
}

TEST_CASE("shim: an unknown option under bare LD_PRELOAD and STRICT says that nothing is managed") {
  const Outcome got = bare({kElfProbe, "1073741824"}, {{"TIDEPOOL_STRICT", "1"}, {"TIDEPOOL_QIET", "1"}});
  expect_passes(got);
  CHECK(got.err.find("TP1003 unknown variable TIDEPOOL_QIET") != std::string::npos);
  CHECK(got.err.find("runs without Tidepool") != std::string::npos);
}

TEST_CASE("shim: processes that do not use CUDA say nothing about the options") {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"TIDEPOOL_DEVICE_BUDGET", "lots"},
                                                                  {"TIDEPOOL_QIET", "1"}};
  CHECK(bare({"sh", "-c", "echo x | cat"}, wrong).err.empty());
  const Outcome got = run({{kSimgpu, "--", kTidepool, "run", "sh", "-c", "true; " + kElfProbe + " 83886080"},
                           "",
                           {{"TIDEPOOL_QIET", "1"}},
                           false,
                           false});
  const std::string warning = "TP1004 unknown variable TIDEPOOL_QIET (did you mean TIDEPOOL_QUIET?)";
  INFO(got.err);
  const auto first = got.err.find(warning);
  CHECK(first != std::string::npos);
  CHECK(got.err.find(warning, first + 1) == std::string::npos);
}

TEST_CASE("shim: a program that is linked against the driver is managed") {
  const Outcome got = run({{kSimgpu, "--device", "h100", "--", kTidepool, "run", "--device-budget", "16MiB",
                            "--", kElfProbe, "16777216"},
                           "",
                           {},
                           false,
                           false});
  expect_passes(got);
}

// HAMi-core#55 (-1 instead of out of memory), #81 (a total above the device's).
TEST_CASE("shim: allocation, free and questions answer as the driver does, wherever the bytes are") {
  expect_passes(probe("memory", {"--check", "full"}));
}

// HAMi-core#333 (null for cuMemGetInfo), HAMi-core#172 (threads without a context), vgpu-manager PR#65
// (cuMemFreeAsync of memory that is none of a pool), nvshare#29 (memory that was made managed).
TEST_CASE("shim: odd calls answer as the driver does") {
  const Outcome got = probe("odd_calls", {"--check", "full"});
  expect_passes(got);
  const auto first = got.err.find("TP1015 the program uses managed memory (cuMemAllocManaged)");
  CHECK(first != std::string::npos);
  CHECK(got.err.find("TP1015", first + 1) == std::string::npos);
}

TEST_CASE("shim: both amounts of the device follow a budget that changes") {
  const Outcome got = run({{kSimgpu, "--device", "h100", "--", kTidepool, "run", "--device-budget", "32MiB",
                            "--", kDoorProbe, "budget_changes"},
                           "",
                           {{"TP_TEST_TIDEPOOL", kTidepool}},
                           false,
                           false});
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out.find("as expected\n") != std::string::npos);
}

TEST_CASE("shim: memory of a context of the program's own moves as well, and ends with it") {
  const ScratchFolder folder;
  const std::string plan = folder / "faults";
  for (const char* check : {"full", "unmap"}) {
    for (const char* seed : {"1", "2", "3", "4"}) {
      INFO(check << ", seed " << seed);
      // For every other seed the first context is not ended at the first try.
      std::ofstream(plan) << (*seed % 2 == 0 ? "cuCtxDestroy nth=1 return=999\n" : "");
      const DeviceRun got =
          run_on_device({"--device", "h100", "--seed", seed, "--faults", plan},
                        {"--check", check, "--device-budget", "32MiB"}, {kDoorProbe, "own_context"});
      expect_passes(got.outcome);
      CHECK(got.outcome.err.find("TP1010") == std::string::npos);
      CHECK(got.number("memory", "physical_now_bytes") == 0);
      CHECK(got.number("memory", "physical_peak_bytes") <= std::uint64_t{40} << 20);
    }
  }
}

TEST_CASE("shim: each device has a context of the program's own managed") {
  for (const char* seed : {"1", "2"}) {
    const DeviceRun got =
        run_on_device({"--device", "h100", "--device", "h100", "--memory", "128MiB", "--seed", seed},
                      {"--check", "full", "--device-budget", "32MiB"}, {kDoorProbe, "own_contexts_of_two"});
    expect_passes(got.outcome);
    CHECK(got.outcome.err.find("TP10") == std::string::npos);
    expect_nothing_left(got.report);
  }
}

TEST_CASE("shim: memory of a second context is passed through, with one message") {
  for (const char* which : {"second_context", "own_context_first"}) {
    const Outcome got = probe(which, {"--check", "full"});
    expect_passes(got);
    const auto first = got.err.find("TP1010");
    CHECK(first != std::string::npos);
    CHECK(got.err.find("TP1010", first + 1) == std::string::npos);
  }
}

TEST_CASE("shim: memory that another context uses stays on the device, with one message") {
  for (int seed = 1; seed <= 6; ++seed) {
    const Outcome got = probe("foreign_context", {"--check", "full"}, seed);
    expect_passes(got);
    const auto first = got.err.find("TP1013");
    CHECK(first != std::string::npos);
    CHECK(got.err.find("TP1013", first + 1) == std::string::npos);
  }
}

TEST_CASE("shim: a free waits for work of other contexts too") {
  for (int seed = 1; seed <= 12; ++seed) expect_passes(probe("foreign_free", {"--check", "full"}, seed));
}

TEST_CASE("shim: contexts that another thread destroys, and errors in them, are no matter of a free") {
  for (int seed = 1; seed <= 6; ++seed) {
    expect_passes(probe("foreign_destroy_race", {}, seed));
    expect_passes(probe("foreign_error", {"--check", "full"}, seed));
  }
}

TEST_CASE("shim: nothing is left of the streams of a destroyed context") {
  expect_passes(probe("context_destroy", {"--check", "full"}));
}

// cudnn-frontend#287: cuMemCreate that is not permitted.
TEST_CASE("shim: where memory cannot be created by handle it is only watched, or with STRICT not even that") {
  ScratchFolder folder;
  const std::string plan = folder / "faults";
  for (const char* code : {"800", "801"}) {
    write_file(plan, std::string("cuMemCreate every=1 return=") + code + "\n");
    for (const bool is_strict : {false, true}) {
      std::vector<std::string> words = {kSimgpu, "--memory", "1GiB",    "--faults",
                                        plan,    "--",       kTidepool, "run"};
      if (is_strict) words.emplace_back("--strict");
      words.insert(words.end(), {"--device-budget", "32MiB", "--", kElfProbe, "1073741824"});
      const Outcome got = run({words, "", {}, false, false});
      expect_passes(got);
      INFO(got.err);
      const std::string what = is_strict ? "The program runs without Tidepool"
                                         : "Its memory is only watched: nothing moves, and no budget holds";
      CHECK(got.err.find(std::string("TP1011 device 0 cannot be managed: the driver answered ") + code +
                         ". " + what + ". Check that ") != std::string::npos);
      CHECK((got.err.find(" Needed ") != std::string::npos) == !is_strict);
    }
  }
}

TEST_CASE("shim: of a device that cannot be managed no reference to its context is kept") {
  for (const char* fault : {"cuMemCreate every=1 return=801", "cuMemAddressReserve every=1 return=2",
                            "cuStreamCreateWithPriority every=1 return=2\ncuStreamCreate every=1 return=2"}) {
    INFO(fault);
    const ScratchFolder folder;
    write_file(folder / "faults", std::string(fault) + "\n");
    const DeviceRun got = run_on_device({"--device", "h100", "--faults", folder / "faults"},
                                        {"--device-budget", "32MiB"}, {kDoorProbe, "unmanaged_context"});
    expect_passes(got.outcome);
    CHECK(got.outcome.err.find("TP1011") != std::string::npos);
    CHECK(got.number("memory", "physical_now_bytes") == 0);
  }
}

TEST_CASE("shim: a capture that ends with its context is under way no longer") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  expect_passes(run({{kSimgpu, "--device", "h100", "--report", file, "--", kTidepool, "run", "--", kDoorProbe,
                      "captures_end"},
                     "",
                     {},
                     false,
                     false}));
  DeviceRun got;
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  got.report = text.str();
  CHECK(got.number("calls", "cuMemsetD8Async") == 1000);
  CHECK(got.number("calls", "cuStreamIsCapturing") < 100);
}

TEST_CASE("shim: a device reset gives back everything of before") {
  expect_passes(probe("device_reset", {"--check", "full"}));
}

// Also where one of the calls by which Tidepool gives its own reference back fails, once.
TEST_CASE("shim: a context that a reset has ended does not come back, and leaves no memory behind") {
  for (int call = 0; call < 7; ++call) {
    INFO("release " << call << " fails");
    const ScratchFolder folder;
    std::ofstream plan(folder / "faults");
    if (call > 0) plan << "cuDevicePrimaryCtxRelease nth=" << call << " return=999\n";
    plan.close();
    const DeviceRun got = run_on_device(
        {"--device", "h100", "--device", "h100", "--memory", "128MiB", "--faults", folder / "faults"},
        {"--check", "full", "--device-budget", "32MiB"}, {kDoorProbe, "ended_contexts"});
    expect_passes(got.outcome);
    expect_nothing_left(got.report);
  }
}

TEST_CASE("shim: a reset, or the end of a pool, that fails has ended nothing") {
  const ScratchFolder folder;
  const std::string faults = folder / "faults";
  std::ofstream(faults) << "cuDevicePrimaryCtxReset nth=1 return=999\ncuMemPoolDestroy nth=1 return=999\n";
  expect_passes(run({{kSimgpu, "--device", "h100", "--faults", faults, "--", kTidepool, "run",
                      "--device-budget", "32MiB", "--", kDoorProbe, "end_fails"},
                     "",
                     {},
                     false,
                     false}));
}

namespace {
/// Without any driver, but for the one in `folder`.
void expect_passes_without(const std::string& which, const std::string& folder,
                           const std::string& is_disabled) {
  std::string preload = preload_first();
  if (!preload.empty()) preload += ':';
  INFO(which);
  expect_passes(run({{kDoorProbe, which},
                     "",
                     {{"LD_PRELOAD", preload + kLibrary},
                      {"LD_LIBRARY_PATH", built(folder)},
                      {"TIDEPOOL_DISABLE", is_disabled}},
                     false,
                     false}));
}
}  // namespace

TEST_CASE("shim: dlsym guards a hooked name in a version that the table does not have") {
  expect_passes_without("newer_driver", "lib/newer_driver", "0");
  expect_passes_without("find_globally", "lib/newer_driver", "0");
}

// What MPI libraries, UCX and hwloc take for a driver.
TEST_CASE("shim: where there is no driver a search of the global scope finds none") {
  expect_passes_without("find_nothing", "lib/no_driver", "0");
  expect_passes_without("find_nothing", "lib/no_driver", "1");
  expect_passes(probe("find_nothing"));  // one that is loaded for somebody else
}

TEST_CASE("shim: everything stays where a program is linked to a version that the table does not have") {
  const Outcome got =
      run({{kSimgpu, "--", kTidepool, "run", "--", built("tests/bound_probe")}, "", {}, false, false});
  expect_passes(got);
  CHECK(got.err.find("TP1012") != std::string::npos);
  CHECK(got.err.find("cuMemFree_v9") != std::string::npos);
}

// pyg PR#10810: a child of a process that uses CUDA only forwards.
TEST_CASE("shim: a fork after the start leaves the parent's memory alone") {
  expect_passes(probe("fork_after_start"));
}

TEST_CASE("shim: a child forked before the start is managed like any process") {
  expect_passes(probe("fork_before_start"));
}

}  // namespace tidepool::test
