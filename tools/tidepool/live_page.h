#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/support/stats_page.h"

namespace tidepool::tools {

/// The stats page of a running process, mapped for writing: what is asked through it the process reads.
class LivePage {
 public:
  LivePage(LivePage&& other) noexcept;
  LivePage& operator=(LivePage&& other) noexcept;
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;
  ~LivePage();

  /// The page in this file; `problem` says why there is none.
  static std::optional<LivePage> open(const std::string& path, std::string* problem);

  [[nodiscard]] pid_t pid() const { return static_cast<pid_t>(page_->pid); }
  [[nodiscard]] std::string program() const;
  [[nodiscard]] std::string run_id() const;
  [[nodiscard]] BudgetControl& budget() const { return page_->budget; }
  [[nodiscard]] std::uint64_t get(Metric metric) const {
    return page_->cells[static_cast<std::size_t>(metric)].value.load(std::memory_order_relaxed);
  }
  /// Does the process still run, and still write to this page? It does not after exec.
  [[nodiscard]] bool is_live() const;

 private:
  LivePage(std::string path, StatsPageLayout* page) : path_(std::move(path)), page_(page) {}

  std::string path_;
  StatsPageLayout* page_;
};

/// The pages of all live processes that keep theirs in this folder; absolute, without links.
std::vector<LivePage> live_pages_in(const std::string& folder, std::string* problem);

/// The page of a process, or those of the run that a `tidepool run` with this id supervises. Empty: `problem`
/// says why.
std::vector<LivePage> live_pages_of(pid_t pid, std::string* problem);

}  // namespace tidepool::tools
