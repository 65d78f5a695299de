#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/support/stats_page.h"

namespace tidepool::tools {

/// The numbers of one process, read from its stats page.
struct ProcessStats {
  std::int64_t pid;
  std::int64_t start_unix_ns;
  std::string program;
  std::string run_id;
  std::string path;  ///< of the page
  std::array<std::uint64_t, kMetricCount> values;

  [[nodiscard]] std::uint64_t get(Metric metric) const { return values[static_cast<std::size_t>(metric)]; }
  /// Did the process get as far as asking for device memory?
  [[nodiscard]] bool used_cuda() const {
    return get(Metric::allocated_bytes_peak) > 0 || get(Metric::out_of_memory_total) > 0;
  }
};

/// Reads every stats page in `folder`, in order of their start; of one run only, if `run_id` names one: a
/// folder may be shared with other runs, before, beside and inside it. Files that are not complete pages of
/// this version are left out; of pages of other versions `other_version` names one, where it is not null.
std::vector<ProcessStats> read_stats_pages(const std::string& folder, const std::string& run_id = "",
                                           std::string* other_version = nullptr);

}  // namespace tidepool::tools
