#pragma once

#include <string>
#include <vector>

#include "allocator/support/device_profile.h"
#include "tools/probe/run.h"

namespace tidepool::probe {

/// A measured figure, as a table shows it: the median.
struct LinkRow {
  std::string group;  ///< "copy, pinned"
  std::string what;   ///< "to device, pieces of 8 MiB"
  double value;
  std::string unit;  ///< "B/s", "ns" or "ns/MiB"
};

/// What planning needs to know of a device, its link and its driver.
struct LinkFigures {
  std::vector<LinkRow> rows;
  DeviceProfile profile;  ///< made of the figures; its source is empty
};

/// Measures, and writes each figure to run.out. On a simulated device all times are simulated ones. Throws
/// DriverError, and std::runtime_error where the device has too little room.
LinkFigures measure_link(const Run& run);

/// Where a number of such a profile comes from.
std::string_view profile_remark(std::string_view table, std::string_view key);

/// Throws std::runtime_error with one line if something that is no file (a folder, a device, a link) is
/// there: a profile would take its place.
void expect_file(const std::string& path);

/// Writes the profile, whole or not at all, and makes the folder for it. Returns the path; `output` empty:
/// the usual one. Throws std::runtime_error with one line that says what could not be written.
std::string write_profile(const DeviceProfile& profile, const std::string& output, bool simulated);

}  // namespace tidepool::probe
