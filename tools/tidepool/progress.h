#pragma once

#include <string>
#include <vector>

#include "allocator/support/units.h"
#include "tools/tidepool/stats_reader.h"

namespace tidepool::tools {

/// The status line of a run: "12.3s · 13.1 of 16.0 GiB held · 4.1 GiB out, 4.0 GiB in · 1.2s waited", summed
/// over the processes that use CUDA, cut to `columns`.
std::string progress_text(const std::vector<ProcessStats>& processes, Nanos elapsed, std::size_t columns);

/// One line on the terminal of stderr that is written anew in place. Shown only where stderr is a terminal
/// and this process is in its foreground: elsewhere nothing is written.
class ProgressLine {
 public:
  static constexpr Nanos kPeriod = millis(500);

  ProgressLine(std::string folder, std::string run_id, Nanos start);

  [[nodiscard]] bool is_shown() const { return is_terminal_; }
  void draw();
  /// Leaves an empty line, for what is said next.
  void clear();

 private:
  std::string folder_;
  std::string run_id_;
  Nanos start_;
  bool is_terminal_;
  bool is_drawn_ = false;
};

}  // namespace tidepool::tools
