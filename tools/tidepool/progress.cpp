#include "tools/tidepool/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tidepool::tools {
namespace {

/// No line in fewer: the program has to have room.
constexpr unsigned kFewestRows = 4;

/// It shows what moves the cursor as letters.
bool is_dumb() {
  const char* const kind = std::getenv("TERM");
  return kind != nullptr && std::string_view(kind) == "dumb";
}

/// A terminal stops a process of the background that writes to it, where it is set so.
bool in_foreground() {
  return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

void put(const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

std::string shown(std::uint64_t bytes) {
  return BytesText(Bytes(bytes)).c_str();
}

}  // namespace

std::string progress_text(const std::vector<ProcessStats>& processes, Nanos elapsed, std::size_t columns) {
  std::uint64_t held = 0;
  std::uint64_t capacity = 0;
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  std::uint64_t waited = 0;
  std::size_t users = 0;
  for (const ProcessStats& each : processes) {
    if (!each.used_cuda()) continue;
    ++users;
    held += each.get(Metric::device_resident_bytes);
    capacity += each.get(Metric::device_capacity_bytes);
    out += each.get(Metric::swap_out_bytes_total);
    in += each.get(Metric::swap_in_bytes_total);
    waited += each.get(Metric::wait_ns_total);
  }
  char duration[kUnitTextBytes];
  format_duration(duration, sizeof duration, elapsed);
  std::vector<std::string> parts = {std::string("tidepool ") + duration};
  if (capacity == 0) {
    parts.emplace_back("no device memory yet");
  } else {
    // What several processes may hold adds up to nothing: they may share a device.
    parts.push_back(shown(held) + (users == 1 ? " of " + shown(capacity) + " held"
                                              : " held by " + std::to_string(users) + " processes"));
    format_duration(duration, sizeof duration, Nanos(static_cast<std::int64_t>(waited)));
    parts.push_back(std::string(duration) + " waited");
    parts.push_back(shown(out) + " out");
    parts.push_back(shown(in) + " in");
  }
  // What does not fit is left out as a whole, so that no number is cut to another one.
  std::string text;
  for (const std::string& part : parts) {
    const std::string more = (text.empty() ? "" : ", ") + part;
    if (text.size() + more.size() >= columns) break;
    text += more;
  }
  return text;
}

ProgressLine::ProgressLine(std::string folder, std::string run_id, Nanos start)
    : folder_(std::move(folder)),
      run_id_(std::move(run_id)),
      start_(start),
      is_terminal_(isatty(STDERR_FILENO) == 1 && !is_dumb()) {}

// The last row is taken out of what scrolls, as apt does: whatever the program writes, whole lines or parts
// of one, stays above it as it is. The cursor is where the program left it, before and after.
void ProgressLine::draw() {
  if (!is_terminal_ || !in_foreground()) return;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < kFewestRows || size.ws_col == 0) return;
  std::string text;
  if (rows_ != size.ws_row) {
    // A cursor in the last row goes up one, and what is there with it: index (ESC D), then reverse index (ESC
    // M).
    text = "\033D\033M\0337\033[1;" + std::to_string(size.ws_row - 1) + "r\0338";
    rows_ = size.ws_row;
  }
  text += "\0337\033[" + std::to_string(rows_) + ";1H\033[K" +
          progress_text(read_stats_pages(folder_, run_id_), monotonic_now() - start_, size.ws_col) + "\0338";
  put(text);
}

void ProgressLine::clear() {
  if (rows_ != 0 && in_foreground()) put("\0337\033[" + std::to_string(rows_) + ";1H\033[K\033[r\0338");
  rows_ = 0;
}

}  // namespace tidepool::tools
