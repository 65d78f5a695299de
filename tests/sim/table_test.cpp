// Programs whose kernels find memory through a table that was copied to the device: what the table leads to
// is there, and may move again once it is freed.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

DeviceRun run_job(const std::string& way, int seed, const std::vector<std::string>& tidepool) {
  return run_on_device({"--seed", std::to_string(seed)}, tidepool, {built("tests/table_job"), way});
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("table: what a table of addresses leads to is there, however the table was written") {
  for (const char* way :
       {"copy", "async", "any-pinned", "any-pageable", "odd", "rows", "box", "batch", "symbol", "value",
        "values", "capture", "node", "again", "moved", "moved-rows", "moved-batch"}) {
    INFO(way);
    const DeviceRun plain = run_job(way, 1, {});
    INFO(plain.outcome.err);
    REQUIRE(plain.outcome.code() == 0);
    const std::vector<std::vector<std::string>> ways = {{"--device-budget", "40MiB", "--check", "full"},
                                                        {"--device-budget", "40MiB", "--check", "unmap"}};
    for (const auto& options : ways) {
      INFO(options.back());
      const DeviceRun got = run_job(way, 1, options);
      INFO(got.outcome.err);
      CHECK(got.outcome.code() == 0);
      CHECK(got.outcome.out == plain.outcome.out);
      // The budget, and the granule in which the driver puts the program's variable.
      CHECK(got.number("memory", "physical_peak_bytes") <= 42 * kMiB);
    }
  }
}

TEST_CASE("table: where copies are not searched, what it leads to is missed") {
  const DeviceRun got = run_job("copy", 1, {"--device-budget", "40MiB", "--scan-copies", "16"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.err.find("illegal address") != std::string::npos);
  const std::string said =
      "E TP3006 cuStreamSynchronize answered error 700: work on the device used an address where nothing "
      "is. The program gets the error. If it runs well with TIDEPOOL_DISABLE=1, a kernel may have found "
      "memory "
      "that its arguments do not name: --check unmap tells which.\n";
  const std::size_t at = got.outcome.err.find(said);
  CHECK(at != std::string::npos);
  CHECK(got.outcome.err.find("TP3006", at + said.size()) == std::string::npos);
}

// Twelve tables of one address one after the other; ten blocks fit.
TEST_CASE("table: what tables named that are gone makes room where there is no other, and that is said") {
  for (const char* way : {"ring", "freed"}) {
    INFO(way);
    const DeviceRun plain = run_job(way, 1, {});
    REQUIRE(plain.outcome.code() == 0);
    const DeviceRun got = run_job(way, 1, {"--device-budget", "40MiB", "--check", "full"});
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.number("memory", "physical_peak_bytes") <= 42 * kMiB);
    const std::size_t at = got.outcome.err.find("W TP2105 ");
    CHECK(at != std::string::npos);
    CHECK(got.outcome.err.find("TP2105", at + 10) == std::string::npos);
    CHECK(got.outcome.err.find("TP2001") == std::string::npos);
    // Where all fits nothing is let go.
    CHECK(run_job(way, 1, {"--device-budget", "80MiB"}).outcome.err.find("TP2105") == std::string::npos);
  }
}

TEST_CASE("table: one that leads to more than fits is refused before the copy, with what is needed") {
  const DeviceRun got = run_job("copy", 1, {"--device-budget", "16MiB"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.err.find(" E TP2001 cuMemcpyHtoD_v2, for what the addresses in it name, needs 16.0 MiB "
                             "at once, but the device "
                             "may hold 16.0 MiB, of which 2.0 MiB stay for other memory. ") !=
        std::string::npos);
  CHECK(got.outcome.err.find("table_job: cudaMemcpy(table") != std::string::npos);
}

TEST_CASE("table: a refusal beside what tables name says how much of what stays that is") {
  const DeviceRun got = run_job("copy", 1, {"--device-budget", "20MiB"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.err.find(
            " needs 4.0 MiB at once, but the device may hold 20.0 MiB, of which 18.0 MiB stay "
            "for other memory (16.0 MiB that tables of addresses name). The call fails with "
            "out of memory. Raise --device-budget to 22.0 MiB or more.\n") != std::string::npos);
}

}  // namespace tidepool::test
