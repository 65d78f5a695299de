// Small allocations of many streams beside what moves: they share slabs before these fill the budget.

#include <catch2/catch.hpp>

#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

DeviceRun run_job(const std::string& streams, const std::string& large_mib, const std::string& budget) {
  std::vector<std::string> options;
  if (!budget.empty()) options = {"--device-budget", budget};
  return run_on_device({}, options, {built("tests/small_blocks_job"), streams, large_mib});
}

/// "22.0MiB" of "... Raise --device-budget to 22.0 MiB or more."
std::string named_budget(const std::string& text) {
  const std::string before = "Raise --device-budget to ";
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  std::istringstream words(text.substr(at + before.size()));
  std::string number;
  std::string unit;
  words >> number >> unit;
  return number + unit;
}

}  // namespace

TEST_CASE("small blocks: what 40 streams keep leaves a block its room") {
  const DeviceRun plain = run_job("40", "10", "");
  REQUIRE(plain.outcome.code() == 0);
  const DeviceRun got = run_job("40", "10", "16MiB");
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.out == plain.outcome.out);
  CHECK(got.number("memory", "physical_peak_bytes") <= std::uint64_t{16} << 20);
}

TEST_CASE("small blocks: where it does not fit beside them, the budget that is named is enough") {
  for (const char* large : {"16", "30", "62"}) {
    INFO(large);
    const DeviceRun plain = run_job("60", large, "");
    REQUIRE(plain.outcome.code() == 0);
    const DeviceRun refused = run_job("60", large, large + std::string("MiB"));
    INFO(refused.outcome.err);
    CHECK(refused.outcome.code() == 1);
    CHECK(refused.outcome.err.find(" E TP2002 ") != std::string::npos);
    const std::string budget = named_budget(refused.outcome.err);
    INFO(budget);
    const DeviceRun got = run_job("60", large, budget);
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
  }
}

}  // namespace tidepool::test
