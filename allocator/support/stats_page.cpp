#include "allocator/support/stats_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "allocator/support/options.h"
#include "allocator/support/run_file.h"
#include "allocator/support/text_writer.h"

namespace tidepool {
namespace {

constexpr MetricRow kRows[] = {
#define TP_METRIC(name, kind, unit, help) {#name, MetricKind::kind, unit, help},
#include "allocator/support/metrics.def"
#undef TP_METRIC
};
static_assert(std::size(kRows) == kMetricCount);

/// Maps the file; `where` is null or an existing mapping that it replaces. Null if that fails.
StatsPageLayout* map_page(int fd, void* where) noexcept {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  void* const got = mmap(where, sizeof(StatsPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, 0);
  return got == MAP_FAILED ? nullptr : static_cast<StatsPageLayout*>(got);
}

const char* run_id() noexcept {
  const char* const id = std::getenv(kRunIdVariable);
  return id == nullptr ? "" : id;
}

/// What was asked of the program of this run that became this one by exec; 0: nothing.
std::uint64_t asked_before_exec(const char* run_dir) noexcept {
  const int fd = open_last_run_file(run_dir, "stats");
  if (fd < 0) return 0;
  alignas(StatsPageLayout) char start[offsetof(StatsPageLayout, budget) + sizeof(std::uint64_t)];
  const ssize_t got = pread(fd, start, sizeof start, 0);
  close(fd);
  if (got != static_cast<ssize_t>(sizeof start)) return 0;
  std::uint64_t magic;
  std::uint32_t version;
  std::uint64_t asked;
  std::memcpy(&magic, start + offsetof(StatsPageLayout, magic), sizeof magic);
  std::memcpy(&version, start + offsetof(StatsPageLayout, version), sizeof version);
  std::memcpy(&asked, start + offsetof(StatsPageLayout, budget), sizeof asked);
  const char* const id = start + offsetof(StatsPageLayout, run_id);
  const bool is_ours = magic == kStatsPageMagic && version == kStatsPageVersion &&
                       std::strncmp(id, run_id(), sizeof(StatsPageLayout::run_id) - 1) == 0;
  return is_ours ? asked : 0;
}

void fill_header(StatsPageLayout& page) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  page.version = kStatsPageVersion;
  page.metric_count = kMetricCount;
  page.pid = getpid();
  page.start_unix_ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  TextWriter(page.program, sizeof page.program).put(program_invocation_short_name);
  TextWriter(page.run_id, sizeof page.run_id).put(run_id());
  page.magic.store(kStatsPageMagic, std::memory_order_release);
}

}  // namespace

constinit StatsPageLayout StatsPage::private_page{};
constinit StatsPage StatsPage::only;

std::span<const MetricRow> metric_rows() noexcept {
  return kRows;
}

StatsPage& StatsPage::attach(const char* run_dir) noexcept {
  StatsPage& stats = only;
  if (stats.attached_) return stats;
  stats.attached_ = true;
  if (run_dir == nullptr || run_dir[0] == '\0' || std::strlen(run_dir) >= sizeof stats.run_dir_) return stats;
  const int saved_errno = errno;
  const std::uint64_t asked = asked_before_exec(run_dir);
  const int fd = create_run_file(run_dir, "stats", sizeof(StatsPageLayout));
  StatsPageLayout* const page = fd < 0 ? nullptr : map_page(fd, nullptr);
  if (page != nullptr) {
    for (std::size_t i = 0; i < kMetricCount; ++i) {
      page->cells[i].value.store(private_page.cells[i].value.load(std::memory_order_relaxed),
                                 std::memory_order_relaxed);
    }
    page->budget.asked.store(asked, std::memory_order_relaxed);
    fill_header(*page);
    TextWriter(stats.run_dir_, sizeof stats.run_dir_).put(run_dir);
    stats.page_ = page;
    stats.is_file_ = true;
  }
  if (fd >= 0) close(fd);
  errno = saved_errno;
  return stats;
}

void StatsPage::reset_after_fork() noexcept {
  const int saved_errno = errno;
  const std::uint64_t asked = page_->budget.asked.load(std::memory_order_relaxed);
  if (is_file_) {
    const int fd = create_run_file(run_dir_, "stats", sizeof(StatsPageLayout));
    is_file_ = fd >= 0 && map_page(fd, page_) != nullptr;
    if (fd >= 0) close(fd);
    // The parent's page must not be written by this process, whatever happens.
    if (!is_file_) page_ = &private_page;
  }
  if (is_file_) {
    page_->budget.asked.store(asked, std::memory_order_relaxed);
    fill_header(*page_);
  } else {
    for (StatsPageLayout::Cell& each : page_->cells) each.value.store(0, std::memory_order_relaxed);
  }
  errno = saved_errno;
}

}  // namespace tidepool
