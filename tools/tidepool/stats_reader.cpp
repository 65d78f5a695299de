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
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    stats.values[i] =
        field<std::uint64_t>(bytes, offsetof(StatsPageLayout, cells) + i * sizeof(StatsPageLayout::Cell));
  }
  return stats;
}

}  // namespace

std::set<std::string> list_stats_pages(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("stats.")) names.insert(name);
  }
  return names;
}

std::vector<ProcessStats> read_stats_pages(const std::string& folder, const std::set<std::string>& except) {
  std::vector<ProcessStats> pages;
  for (const std::string& name : list_stats_pages(folder)) {
    if (except.contains(name)) continue;
    if (const auto page = read_page(fs::path(folder) / name)) pages.push_back(*page);
  }
  std::sort(pages.begin(), pages.end(), [](const ProcessStats& a, const ProcessStats& b) {
    return std::tie(a.start_unix_ns, a.pid) < std::tie(b.start_unix_ns, b.pid);
  });
  return pages;
}

}  // namespace tidepool::tools
