// Batches of copies in a budget that has no room for all that they name: CUDA promises no order among the
// copies of a batch, so they are made in parts.

#include <catch2/catch.hpp>

#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

DeviceRun run_job(const std::string& way, const std::string& order, int seed,
                  const std::vector<std::string>& tidepool) {
  return run_on_device({"--seed", std::to_string(seed)}, tidepool, {built("tests/batch_job"), way, order});
}

}  // namespace

// 64 MiB are named by each batch.
TEST_CASE("batch: one that names four times the budget copies what it copies without Tidepool") {
  for (const char* way : {"1d", "3d"}) {
    for (const char* order : {"stream", "call", "any"}) {
      INFO(way << ' ' << order);
      const DeviceRun plain = run_job(way, order, 1, {});
      INFO(plain.outcome.err);
      REQUIRE(plain.outcome.code() == 0);
      for (int seed = 1; seed <= (sanitized() ? 1 : 4); ++seed) {
        for (const char* budget : {"16MiB", "40MiB"}) {
          const DeviceRun got = run_job(way, order, seed, {"--device-budget", budget, "--check", "full"});
          INFO(budget << ", seed " << seed << '\n' << got.outcome.err);
          CHECK(got.outcome.code() == 0);
          CHECK(got.outcome.out == plain.outcome.out);
          CHECK(got.number("memory", "physical_peak_bytes") <= (budget[0] == '1' ? 16 : 40) * kMiB);
        }
      }
    }
  }
}

}  // namespace tidepool::test
