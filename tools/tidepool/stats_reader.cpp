#include "tools/tidepool/stats_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>

namespace tidepool::tools {
namespace {

namespace fs = std::filesystem;

template <class T>
T field(const std::vector<char>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// What every version begins with.
constexpr std::size_t kHeader = offsetof(StatsPageLayout, run_id) + sizeof(StatsPageLayout::run_id);

std::string run_id_of(const std::vector<char>& bytes) {
  const char* const run_id = bytes.data() + offsetof(StatsPageLayout, run_id);
  return {run_id, strnlen(run_id, sizeof(StatsPageLayout::run_id))};
}

/// "" if the page is of this version.
std::string version_problem(const fs::path& path, const std::vector<char>& bytes) {
  const auto version = field<std::uint32_t>(bytes, offsetof(StatsPageLayout, version));
  const auto metrics = field<std::uint32_t>(bytes, offsetof(StatsPageLayout, metric_count));
  if (version == kStatsPageVersion && metrics == kMetricCount) return "";
  return path.filename().string() + " is of another version of Tidepool (" + std::to_string(version) +
         " with " + std::to_string(metrics) + " numbers, this command knows " +
         std::to_string(kStatsPageVersion) + " with " + std::to_string(kMetricCount) + ")";
}

/// As much of the file as a page of this version has; empty if it is no page with a header.
std::vector<char> read_bytes(const fs::path& path) {
  std::vector<char> bytes(sizeof(StatsPageLayout));
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() < kHeader ||
      field<std::uint64_t>(bytes, offsetof(StatsPageLayout, magic)) != kStatsPageMagic)
    bytes.clear();
  return bytes;
}

ProcessStats stats_of(const std::vector<char>& bytes) {
  ProcessStats stats{};
  stats.pid = field<std::int64_t>(bytes, offsetof(StatsPageLayout, pid));
  stats.start_unix_ns = field<std::int64_t>(bytes, offsetof(StatsPageLayout, start_unix_ns));
  const char* const program = bytes.data() + offsetof(StatsPageLayout, program);
  stats.program.assign(program, strnlen(program, sizeof(StatsPageLayout::program)));
  stats.run_id = run_id_of(bytes);
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    stats.values[i] =
        field<std::uint64_t>(bytes, offsetof(StatsPageLayout, cells) + i * sizeof(StatsPageLayout::Cell));
  }
  return stats;
}

}  // namespace

std::vector<ProcessStats> read_stats_pages(const std::string& folder, const std::string& run_id,
                                           std::string* other_version) {
  std::vector<ProcessStats> pages;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // what is there may be anything, also a pipe, which would be waited for
    if (!entry->path().filename().string().starts_with("stats.") || !entry->is_regular_file(ignored))
      continue;
    const std::vector<char> bytes = read_bytes(entry->path());
    if (bytes.empty() || (!run_id.empty() && run_id_of(bytes) != run_id)) continue;
    const std::string problem = version_problem(entry->path(), bytes);
    if (problem.empty() && bytes.size() == sizeof(StatsPageLayout)) {
      pages.push_back(stats_of(bytes));
      pages.back().path = entry->path().string();
    } else if (!problem.empty() && other_version != nullptr) {
      *other_version = problem;
    }
  }
  std::sort(pages.begin(), pages.end(), [](const ProcessStats& a, const ProcessStats& b) {
    return std::tie(a.start_unix_ns, a.pid) < std::tie(b.start_unix_ns, b.pid);
  });
  return pages;
}

}  // namespace tidepool::tools
