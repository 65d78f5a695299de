#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

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

}  // namespace tidepool::test
