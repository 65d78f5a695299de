// Memory that the program has of the driver itself, beside what is managed: there is room for it, and the
// budget holds with it.

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

DeviceRun probe(const std::string& which, const std::vector<std::string>& device,
                const std::vector<std::string>& options = {}, int seed = 1) {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  std::vector<std::string> words = {built("bin/simgpu"), "--seed", std::to_string(seed), "--report", file};
  words.insert(words.end(), device.begin(), device.end());
  words.insert(words.end(), {"--", built("bin/tidepool"), "run"});
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", built("tests/outside_probe"), which});
  DeviceRun got;
  got.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  got.report = text.str();
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.out == "as expected\n");
  return got;
}

const std::vector<std::string> kSmall = {"--memory", "256MiB"};
const std::vector<std::string> kLarge = {"--device", "h100"};

}  // namespace

TEST_CASE("outside: what is freed is given back when the program wants it of the driver itself") {
  probe("context_room", kSmall);
  probe("pool_room", kSmall);
}

TEST_CASE("outside: more pools than can be managed are told of once, and the budget holds") {
  const DeviceRun got = probe("many_pools", kLarge, {"--device-budget", "64MiB"});
  CHECK(got.number("memory", "physical_peak_bytes") <= 64 * kMiB);
  const std::string said =
      " W TP1019 the program has more than 127 memory pools at a time. What it allocates from further ones "
      "stays on the device, in the driver's hands. Destroy pools that are done with, or raise "
      "--device-budget.\n";
  const std::size_t at = got.outcome.err.find(said);
  CHECK(at != std::string::npos);
  CHECK(got.outcome.err.find("TP1019", at + said.size()) == std::string::npos);
  CHECK(probe("counted", kLarge, {"--device-budget", "64MiB"}).outcome.err.find("TP1019") ==
        std::string::npos);
}

TEST_CASE("outside: a pool says that it holds what its threshold lets it hold after a wait") {
  probe("threshold", kLarge, {"--device-budget", "64MiB"});
}

TEST_CASE("outside: nothing leaves for what the driver does not have either") {
  const DeviceRun got = probe("too_much", kSmall);
  CHECK(got.number("d2h", "bytes") == 0);
}

TEST_CASE("outside: the budget holds with memory of contexts and pools that are not managed") {
  const DeviceRun got = probe("counted", kLarge, {"--device-budget", "64MiB"});
  CHECK(got.number("memory", "physical_peak_bytes") <= 64 * kMiB);
}

TEST_CASE("outside: room that was made for one call is not another's") {
  for (int seed = 1; seed <= seeds_of_sweep(); ++seed) {
    INFO("seed " << seed);
    const DeviceRun got = probe("promised", kLarge, {"--device-budget", "64MiB"}, seed);
    CHECK(got.number("memory", "physical_peak_bytes") <= 64 * kMiB);
  }
}

// HAMi#332, #1445: limits that graphs pass. pytorch#83461, cudarc PR#595: allocations within a capture.
TEST_CASE("outside: what graphs allocate is counted, has room, and is refused beyond the budget") {
  for (const char* how : {"captured_graph", "made_graph"}) {
    INFO(how);
    const DeviceRun got = probe(how, kLarge, {"--device-budget", "64MiB"});
    CHECK(got.number("memory", "physical_peak_bytes") <= 64 * kMiB);
    CHECK(got.outcome.err.find("TP2103") != std::string::npos);
  }
}

TEST_CASE("outside: what instances of graphs name may leave when they are gone and have run") {
  for (int seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    for (const char* how : {"captured_again", "updated_again"}) {
      const DeviceRun got = probe(how, kLarge, {"--device-budget", "64MiB", "--check", "full"}, seed);
      CHECK(got.number("memory", "physical_peak_bytes") <= 64 * kMiB);
      CHECK(got.number("d2h", "bytes") > 0);
    }
  }
}

TEST_CASE("outside: what a graph allocates on two devices counts on each") {
  const DeviceRun got =
      probe("graph_of_two", {"--device", "h100", "--device", "h100"}, {"--device-budget", "64MiB"});
  std::size_t devices = 0;
  for (std::size_t at = 0; (at = got.report.find("\"physical_peak_bytes\":", at)) != std::string::npos;
       ++at) {
    CHECK(std::strtoull(got.report.c_str() + at + 22, nullptr, 10) <= 64 * kMiB);
    ++devices;
  }
  CHECK(devices >= 2);
}

}  // namespace tidepool::test
