#include "tools/tidepool/stats_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
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

std::optional<ProcessStats> read_page(const fs::path& path) {
  std::vector<char> bytes(sizeof(StatsPageLayout));
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file || field<std::uint64_t>(bytes, offsetof(StatsPageLayout, magic)) != kStatsPageMagic ||
      field<std::uint32_t>(bytes, offsetof(StatsPageLayout, version)) != kStatsPageVersion ||
      field<std::uint32_t>(bytes, offsetof(StatsPageLayout, metric_count)) != kMetricCount) {
    return std::nullopt;
  }
  ProcessStats stats{};
  stats.pid = field<std::int64_t>(bytes, offsetof(StatsPageLayout, pid));
  stats.start_unix_ns = field<std::int64_t>(bytes, offsetof(StatsPageLayout, start_unix_ns));
  const char* const program = bytes.data() + offsetof(StatsPageLayout, program);
  stats.program.assign(program, strnlen(program, sizeof(StatsPageLayout::program)));
  const char* const run_id = bytes.data() + offsetof(StatsPageLayout, run_id);
  stats.run_id.assign(run_id, strnlen(run_id, sizeof(StatsPageLayout::run_id)));
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    stats.values[i] =
        field<std::uint64_t>(bytes, offsetof(StatsPageLayout, cells) + i * sizeof(StatsPageLayout::Cell));
  }
  return stats;
}

}  // namespace

std::vector<ProcessStats> read_stats_pages(const std::string& folder, const std::string& run_id) {
  std::vector<ProcessStats> pages;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // what is there may be anything, also a pipe, which would be waited for
    if (!entry->path().filename().string().starts_with("stats.") || !entry->is_regular_file(ignored))
      continue;
    const auto page = read_page(entry->path());
    if (page && (run_id.empty() || page->run_id == run_id)) pages.push_back(*page);
  }
  std::sort(pages.begin(), pages.end(), [](const ProcessStats& a, const ProcessStats& b) {
    return std::tie(a.start_unix_ns, a.pid) < std::tie(b.start_unix_ns, b.pid);
  });
  return pages;
}

}  // namespace tidepool::tools
