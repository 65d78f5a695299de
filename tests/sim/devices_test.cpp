// Several devices in one process: each has the budget, memory of each moves, and what goes between them
// arrives.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kJob = built("tests/devices_job");
const std::string kSwitching = built("tests/switching_job");

struct Run {
  Outcome outcome;
  std::string report;

  /// Every number behind `"key": `, in the order of the report: of devices, one for each.
  [[nodiscard]] std::vector<std::uint64_t> numbers(const std::string& key) const {
    std::vector<std::uint64_t> found;
    const std::string name = "\"" + key + "\":";
    for (std::size_t at = report.find(name); at != std::string::npos; at = report.find(name, at + 1)) {
      found.push_back(std::strtoull(report.c_str() + at + name.size(), nullptr, 10));
    }
    return found;
  }
  [[nodiscard]] std::uint64_t races() const {
    const Run behind{{}, report.substr(report.find("\"races\""))};
    return behind.numbers("total").at(0);
  }
  [[nodiscard]] std::vector<std::uint64_t> peaks() const { return numbers("physical_peak_bytes"); }
};

Run on_two_devices(const std::vector<std::string>& program, int seed,
                   const std::vector<std::string>& tidepool = {},
                   const std::vector<std::string>& device = {}) {
  const ScratchFolder folder;
  const std::string report = folder / "report.json";
  std::vector<std::string> words = {
      built("bin/simgpu"),  "--device", "h100", "--device", "h100", "--memory", "1GiB", "--seed",
      std::to_string(seed), "--report", report};
  words.insert(words.end(), device.begin(), device.end());
  words.emplace_back("--");
  if (!tidepool.empty()) {
    words.insert(words.end(), {built("bin/tidepool"), "run", "--check", "full"});
    words.insert(words.end(), tidepool.begin(), tidepool.end());
    words.push_back("--");
  }
  words.insert(words.end(), program.begin(), program.end());
  Run result;
  result.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(report).rdbuf();
  result.report = text.str();
  return result;
}

/// The same output in a share of the larger peak, on each device.
void expect_same(const std::vector<std::string>& program, const std::vector<std::uint64_t>& percents,
                 const std::vector<int>& seeds) {
  const Run plain = on_two_devices(program, 1);
  INFO(plain.outcome.err);
  REQUIRE(plain.outcome.code() == 0);
  REQUIRE(plain.peaks().size() == 2);
  const std::uint64_t peak = std::max(plain.peaks()[0], plain.peaks()[1]);
  for (const std::uint64_t percent : percents) {
    for (const int seed : seeds) {
      const std::uint64_t budget = peak * percent / 100;
      INFO(program[0] << " at " << percent << " per cent, seed " << seed);
      const Run got = on_two_devices(program, seed, {"--device-budget", std::to_string(budget)});
      INFO(got.outcome.err);
      CHECK(got.outcome.code() == 0);
      CHECK(got.outcome.out == plain.outcome.out);
      CHECK(got.outcome.err.find(" TP") == std::string::npos);
      for (const std::uint64_t held : got.peaks()) CHECK(held <= budget);
      CHECK(got.numbers("errors_total").at(0) == 0);
      CHECK(got.races() == 0);
      for (const std::uint64_t left : got.numbers("physical_now_bytes"))
        CHECK((left == 0 || program[0] != kJob));
      if (percent >= 100) continue;
      CHECK(got.outcome.err.find("fitted in") != std::string::npos);
      CHECK(got.outcome.err.find("Nothing had to be swapped") == std::string::npos);
    }
  }
}

/// The job checks its bytes itself, in this mode; and prints the same as without Tidepool.
Run expect_checked(const std::string& mode, const std::vector<std::string>& options, int seed = 1) {
  const Run plain = on_two_devices({kSwitching, mode}, seed);
  INFO(mode << ", seed " << seed << "\n" << plain.outcome.err);
  REQUIRE(plain.outcome.code() == 0);
  const Run got = on_two_devices({kSwitching, mode}, seed, options);
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.out == plain.outcome.out);
  CHECK(got.races() == 0);
  for (const std::uint64_t left : got.numbers("physical_now_bytes")) CHECK(left == 0);
  return got;
}

}  // namespace

// pytorch#64504, FBGEMM PR#1875: peers without access.
TEST_CASE("devices: one thread works on two, and every way from one to the other keeps each byte") {
  expect_same({kJob, "3"}, {100, 60, 45}, {1, 2, 3});
}

TEST_CASE("devices: a device that is reset begins anew, and the other keeps what it has") {
  expect_same({kJob, "4", "reset"}, {100, 60}, {1, 2});
  expect_same({kJob, "4", "reset-first"}, {100, 60}, {1, 2});
}

TEST_CASE("devices: a context that the program gives up ends, with its memory") {
  expect_same({kJob, "4", "release"}, {100, 60}, {1, 2});
}

// HAMi#1479, #1230, #1191, #1764: one program over several devices.
TEST_CASE("devices: replicas on two devices train in half of each one's memory, bit for bit", "[plain]") {
  for (const char* alloc : {"plain", "async", "pool"}) {
    expect_same(
        {built("bin/train_mlp"), "--steps", "2", "--threads", "3", "--devices", "2", "--alloc", alloc}, {50},
        {1, 2});
  }
}

TEST_CASE("devices: the summary adds the devices up, and each has the budget for itself") {
  const Run got = on_two_devices({kJob, "2"}, 1, {"--device-budget", "24MiB"});
  INFO(got.outcome.err);
  REQUIRE(got.outcome.code() == 0);
  // Eight blocks and one of a pool on each, of 4 MiB; what is there at once is a matter of time.
  CHECK(got.outcome.err.find("Needed 76.0 MiB, fitted in 48.0 MiB (peak 4") != std::string::npos);
  for (const std::uint64_t held : got.peaks()) CHECK(held <= (std::uint64_t{24} << 20));
}

TEST_CASE("devices: threads that switch all the time, begin on one device and end on the other") {
  for (const int seed : {1, 2, 3})
    expect_checked("threads", {"--device-budget", "24MiB", "--host-budget", "1GiB"}, seed);
}

TEST_CASE("devices: a program may use the second device alone") {
  const Run got = expect_checked("second", {"--device-budget", "24MiB"});
  CHECK(got.peaks().at(0) == 0);
  CHECK(got.peaks().at(1) <= (std::uint64_t{24} << 20));
  CHECK(got.outcome.err.find("Needed 40.0 MiB, fitted in 24.0 MiB") != std::string::npos);
}

TEST_CASE("devices: one that is full is told so, and the other goes on") {
  const Run got = expect_checked("fill", {"--device-budget", "24MiB", "--host-budget", "64MiB"});
  CHECK(got.outcome.err.find("TP2005 device 1: out of memory: 4.0 MiB asked") != std::string::npos);
  CHECK(got.outcome.err.find("Out of memory once") != std::string::npos);
}

TEST_CASE("devices: children that are forked meanwhile change nothing") {
  expect_checked("fork", {"--device-budget", "16MiB"});
}

TEST_CASE("devices: streams of one that has no managed memory get to that of the other") {
  expect_checked("guest", {"--device-budget", "24MiB"});
}

// Its memory is the driver's own then, and copies to the first one's come from streams that are not followed.
TEST_CASE("devices: one that cannot be managed works beside one that is") {
  const Run plain = on_two_devices({kJob, "2"}, 1);
  const ScratchFolder folder;
  write_file(folder / "plan", "cuMemAddressReserve after=1 count=100 return=CUDA_ERROR_OUT_OF_MEMORY\n");
  const Run got = on_two_devices({kJob, "2"}, 1, {"--device-budget", "64MiB"}, {"--faults", folder / "plan"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.out == plain.outcome.out);
  CHECK(got.outcome.err.find("TP1011 device 1 cannot be managed") != std::string::npos);
}

TEST_CASE("devices: memory that is only watched is counted on both, and its trace tells them apart") {
  const Run plain = on_two_devices({kJob, "2"}, 1);
  REQUIRE(plain.outcome.code() == 0);
  const ScratchFolder folder;
  for (const std::string mode : {"observe", "manage"}) {
    const std::string run_folder = folder / mode;
    const Run got =
        on_two_devices({kJob, "2"}, 1, {"--mode", mode, "--trace", "ops", "--run-dir", run_folder});
    INFO(mode << ": " << got.outcome.err);
    REQUIRE(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    if (mode == "observe") {
      CHECK(got.peaks() == plain.peaks());
      CHECK(got.outcome.err.find(" of 2.0 GiB (peak ") != std::string::npos);
    }
    const Outcome report = run({{built("bin/tidepool"), "report", run_folder}, "", {}, false, false});
    INFO(report.out);
    // Eight blocks and one of a pool on each, and twice one of the second that work of the first is given.
    CHECK(report.out.find("device 0: 9 allocations, 36.0 MiB at most; ") != std::string::npos);
    CHECK(report.out.find("device 1: 11 allocations, 40.0 MiB at most; ") != std::string::npos);
  }
}

TEST_CASE("devices: without peer access a kernel does not get to the other device's memory") {
  const Run got = on_two_devices({kJob, "1", "stray"}, 1, {"--device-budget", "64MiB"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.err.find("illegal memory access") != std::string::npos);
}

}  // namespace tidepool::test
