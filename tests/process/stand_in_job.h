#pragma once

#include <string>
#include <vector>

#include "tests/process/child_process.h"

namespace tidepool::test {

inline const std::string kTidepool = built("tests/stand_in/bin/tidepool");
inline constexpr char kNumbers[] =
    "allocated_bytes_peak=100663296 device_capacity_bytes=50331648 device_resident_bytes_peak=50226790 "
    "swap_out_bytes_total=1288490189 swap_in_bytes_total=1181116006 slow_path_total=7";

/// A run in which the stand-in for the library writes these numbers, with its private folder under `tmp`.
inline Job job(const ScratchFolder& tmp, std::vector<std::string> words, const char* numbers = kNumbers) {
  words.insert(words.begin(), {kTidepool, "run"});
  return {words, "", {{"TIDEPOOL_TEST_STATS", numbers}, {"TMPDIR", tmp.path()}}, false, false};
}

}  // namespace tidepool::test
