#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/child_process.h"

namespace tidepool::test {

/// A program that ran on the simulated device, and the device's report of it
/// (docs/reference/simgpu-report.md).
struct DeviceRun {
  Outcome outcome;
  std::string report;

  /// The number behind `"key": ` after the first `"section"` of the report; fails the test where there is
  /// none.
  [[nodiscard]] std::uint64_t number(const std::string& section, const std::string& key) const {
    const std::size_t from = report.find("\"" + section + "\"");
    REQUIRE(from != std::string::npos);
    const std::size_t at = report.find("\"" + key + "\":", from);
    REQUIRE(at != std::string::npos);
    return std::strtoull(report.c_str() + at + key.size() + 3, nullptr, 10);
  }
};

/// Runs a program on simgpu, which is given the words `simgpu`; under `tidepool run` with the words
/// `tidepool`, or without Tidepool where there are none.
inline DeviceRun run_on_device(const std::vector<std::string>& simgpu,
                               const std::vector<std::string>& tidepool,
                               const std::vector<std::string>& program) {
  const ScratchFolder folder;
  const std::string report = folder / "report.json";
  std::vector<std::string> words = {built("bin/simgpu"), "--report", report};
  words.insert(words.end(), simgpu.begin(), simgpu.end());
  words.emplace_back("--");
  if (!tidepool.empty()) {
    words.insert(words.end(), {built("bin/tidepool"), "run"});
    words.insert(words.end(), tidepool.begin(), tidepool.end());
    words.emplace_back("--");
  }
  words.insert(words.end(), program.begin(), program.end());
  DeviceRun result;
  result.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(report).rdbuf();
  result.report = text.str();
  return result;
}

/// The program prints in a budget of so many MiB what it prints without Tidepool, and the device never holds
/// more; also where every idle block is unmapped.
inline void expect_same_output(const std::vector<std::string>& program, const std::string& seed,
                               std::uint64_t budget_mib) {
  const DeviceRun plain = run_on_device({"--seed", seed}, {}, program);
  INFO(plain.outcome.err);
  REQUIRE(plain.outcome.code() == 0);
  for (const char* check : {"off", "unmap"}) {
    INFO(check);
    const std::string budget = std::to_string(budget_mib) + "MiB";
    const DeviceRun got =
        run_on_device({"--seed", seed}, {"--device-budget", budget, "--check", check}, program);
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.number("memory", "physical_peak_bytes") <= budget_mib << 20);
  }
}

}  // namespace tidepool::test
