#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "allocator/support/budget_control.h"

namespace tidepool {

/// Which number: one enumerator per row of metrics.def.
// NOLINTBEGIN(readability-identifier-naming): named as their rows are
enum class Metric : std::uint16_t {
#define TP_METRIC(name, kind, unit, help) name,
#include "allocator/support/metrics.def"
#undef TP_METRIC
};
// NOLINTEND(readability-identifier-naming)

enum class MetricKind : std::uint8_t {
  kGauge,    ///< goes up and down
  kCounter,  ///< only goes up
  kPeak,     ///< the highest value of a gauge
};

/// One row of metrics.def.
struct MetricRow {
  const char* name;
  MetricKind kind;
  const char* unit;  ///< "bytes", "ns", or empty for a plain number
  const char* help;
};
std::span<const MetricRow> metric_rows() noexcept;

inline constexpr std::size_t kMetricCount = 0
#define TP_METRIC(...) +1
#include "allocator/support/metrics.def"
#undef TP_METRIC
    ;

inline constexpr std::uint64_t kStatsPageMagic = 0x7473'6c6f'6f70'6474;  // "tdpoolst" in memory
inline constexpr std::uint32_t kStatsPageVersion = 8;

/// The file `<run_dir>/stats.<pid>` as it lies on disk; host byte order. A reader takes a file whose magic,
/// version and metric_count are its own and refuses any other.
struct StatsPageLayout {
  std::atomic<std::uint64_t> magic;  ///< written last, so that a page with it is complete
  std::uint32_t version;
  std::uint32_t metric_count;
  std::int64_t pid;
  std::int64_t start_unix_ns;  ///< CLOCK_REALTIME when the page was made
  char program[64];            ///< name of the program, cut and zero-terminated
  char run_id[32];             ///< kRunIdVariable, zero-terminated; empty without tidepool run
  /// The one part that other processes write. A program that this one becomes by exec takes over what was
  /// asked.
  BudgetControl budget;
  /// Each number has a cache line of its own: threads that count different things do not disturb each other.
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> value;
  } cells[kMetricCount];
};
static_assert(std::is_trivially_destructible_v<StatsPageLayout>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The numbers of this process. They lie in a shared mapping of a file, so that they outlive the process
/// however it ends; without a run folder, and before attach(), they lie in private memory. There is always a
/// page: callers never test for one.
///
/// Hook-safe and thread-safe: add, set, raise, get are one relaxed atomic operation each.
class StatsPage {
 public:
  /// This process' page.
  static StatsPage& instance() noexcept { return only; }

  /// Moves the numbers into `<run_dir>/stats.<pid>`; null, empty or unusable `run_dir`: they stay private. If
  /// that file exists (the process called exec, or its number was used before), `.1`, `.2`, … is added. Only
  /// the first call does anything. Call it from the library's constructor: a page in the run folder is how
  /// `tidepool run` knows that the library was loaded.
  static StatsPage& attach(const char* run_dir) noexcept;

  /// In the child after fork(): all numbers start at zero in a file of the child's own. The parent's page is
  /// no longer reachable. What was asked of the parent is asked of the child. Async-signal-safe.
  void reset_after_fork() noexcept;

  void add(Metric metric, std::uint64_t n) noexcept { cell(metric).fetch_add(n, std::memory_order_relaxed); }
  /// add() of one; the new number.
  std::uint64_t count(Metric metric) noexcept {
    return cell(metric).fetch_add(1, std::memory_order_relaxed) + 1;
  }
  void sub(Metric metric, std::uint64_t n) noexcept { cell(metric).fetch_sub(n, std::memory_order_relaxed); }
  void set(Metric metric, std::uint64_t n) noexcept { cell(metric).store(n, std::memory_order_relaxed); }
  /// Sets the number to `n` if that is more.
  void raise(Metric metric, std::uint64_t n) noexcept {
    std::atomic<std::uint64_t>& value = cell(metric);
    std::uint64_t seen = value.load(std::memory_order_relaxed);
    while (seen < n && !value.compare_exchange_weak(seen, n, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] std::uint64_t get(Metric metric) noexcept {
    return cell(metric).load(std::memory_order_relaxed);
  }

  /// What others ask of this process, and its answers.
  [[nodiscard]] BudgetControl& budget_control() noexcept { return page_->budget; }

  /// True when the numbers lie in a file.
  [[nodiscard]] bool is_file() const noexcept { return is_file_; }

  constexpr StatsPage() noexcept = default;
  StatsPage(const StatsPage&) = delete;
  StatsPage& operator=(const StatsPage&) = delete;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>& cell(Metric metric) noexcept {
    return page_->cells[static_cast<std::size_t>(metric)].value;
  }

  static StatsPageLayout private_page;
  static StatsPage only;

  StatsPageLayout* page_ = &private_page;
  bool attached_ = false;
  bool is_file_ = false;
  char run_dir_[4096] = {};
};
static_assert(std::is_trivially_destructible_v<StatsPage>);

}  // namespace tidepool
