#pragma once

#include <string>
#include <vector>

#include "allocator/support/units.h"
#include "tools/tidepool/stats_reader.h"

namespace tidepool::tools {

/// The status line of a run: "tidepool 12.3s, 13.1 GiB of 16.0 GiB held, 1.2s waited, 4.1 GiB out, 4.0 GiB
/// in", summed over the processes that use CUDA; shorter than `columns`, for which it leaves out the last of
/// it.
std::string progress_text(const std::vector<ProcessStats>& processes, Nanos elapsed, std::size_t columns);

/// A line in the last row of the terminal of stderr, below what the program writes, that is written anew in
/// place. Shown only where stderr is a terminal of a known size that can do so, and this process is in its
/// foreground: elsewhere nothing is written.
class ProgressLine {
 public:
  static constexpr Nanos kPeriod = millis(500);

  ProgressLine(std::string folder, std::string run_id, Nanos start);

  [[nodiscard]] bool is_shown() const { return is_terminal_; }
  void draw();
  /// Gives the row back to what scrolls.
  void clear();

 private:
  std::string folder_;
  std::string run_id_;
  Nanos start_;
  bool is_terminal_;
  unsigned rows_ = 0;  ///< of the terminal that it was drawn on; 0: it is not
};

}  // namespace tidepool::tools
