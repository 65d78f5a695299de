// TIDEPOOL_CHECK=unmap: programs whose kernels name what they use run as without it; one whose kernel finds a
// pointer elsewhere meets an illegal address, also where all memory would fit, and is told which kernel it
// is.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");

struct Run {
  Outcome outcome;
  std::string report;
  /// The number behind `"key": ` after the first `"section"` of the device's report.
  [[nodiscard]] std::uint64_t number(const std::string& section, const std::string& key) const {
    const std::size_t from = report.find("\"" + section + "\"");
    REQUIRE(from != std::string::npos);
    const std::size_t at = report.find("\"" + key + "\":", from);
    REQUIRE(at != std::string::npos);
    return std::strtoull(report.c_str() + at + key.size() + 3, nullptr, 10);
  }
};

Run on_device(std::vector<std::string> program, const std::vector<std::string>& tidepool = {}) {
  const ScratchFolder folder;
  const std::string report = folder / "report.json";
  std::vector<std::string> words = {kSimgpu, "--device", "h100", "--report", report, "--"};
  if (!tidepool.empty()) {
    words.insert(words.end(), {kTidepool, "run"});
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

void expect_same(const std::string& workload, const std::string& alloc) {
  const std::vector<std::string> program = {built("bin/" + workload), "--steps", "1", "--alloc", alloc};
  const Run plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);
  const std::uint64_t peak = plain.number("memory", "physical_peak_bytes");
  for (const std::uint64_t percent : {100, 50}) {
    INFO(workload << ", " << alloc << ", " << percent << " per cent");
    const std::uint64_t budget = peak * percent / 100;
    const Run got = on_device(program, {"--device-budget", std::to_string(budget), "--check", "unmap"});
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.outcome.err.find(" TP") == std::string::npos);
    CHECK(got.number("memory", "physical_peak_bytes") <= budget);
    CHECK(got.number("errors_total", "errors_total") == 0);
    CHECK(got.number("races", "total") == 0);
    // More than ever were mapped at once had to be unmapped: about one for each launch.
    CHECK(got.number("calls", "cuMemUnmap") > got.number("calls", "cuLaunchKernel") / 4);
  }
}

}  // namespace

// All of them in the nightly sweep.
TEST_CASE("unmap: a perceptron trains the same, with every idle block unmapped") {
  for (const char* alloc : {"plain", "async", "pool"}) expect_same("train_mlp", alloc);
}

TEST_CASE("unmap: the other jobs train the same, with every idle block unmapped", "[plain]") {
  const std::pair<const char*, const char*> jobs[] = {
      {"train_cnn", "plain"}, {"train_lstm", "async"}, {"train_transformer", "pool"}};
  for (const auto& [job, usual] : jobs) {
    for (const std::string alloc : {"plain", "async", "pool"}) {
      if (alloc == usual || is_sweep()) expect_same(job, alloc);
    }
  }
}

TEST_CASE("unmap: a pointer that no argument shows ends in an illegal address, and the kernel is named") {
  const std::vector<std::string> program = {built("tests/hidden_job")};
  const Run plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);

  // Where everything fits it passes by luck.
  const Run lucky = on_device(program, {"--device-budget", "64MiB", "--check", "full"});
  CHECK(lucky.outcome.code() == 0);
  CHECK(lucky.outcome.out == plain.outcome.out);

  const Run got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.out.empty());
  CHECK(got.outcome.err.find("illegal memory access") != std::string::npos);
  CHECK(got.outcome.err.find(" E TP2020 kernel (anonymous namespace)::follow(") != std::string::npos);

  // What its explanation advises.
  const Run kept =
      on_device(program, {"--device-budget", "64MiB", "--check", "unmap", "--min-block", "8MiB"});
  INFO(kept.outcome.err);
  CHECK(kept.outcome.code() == 0);
  CHECK(kept.outcome.out == plain.outcome.out);
}

}  // namespace tidepool::test
