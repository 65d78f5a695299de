#include "tools/tidepool/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tidepool::tools {
namespace {

constexpr std::size_t kUsualColumns = 80;

std::size_t columns_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

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
  for (const ProcessStats& each : processes) {
    if (!each.used_cuda()) continue;
    held += each.get(Metric::device_resident_bytes);
    capacity += each.get(Metric::device_capacity_bytes);
    out += each.get(Metric::swap_out_bytes_total);
    in += each.get(Metric::swap_in_bytes_total);
    waited += each.get(Metric::wait_ns_total);
  }
  char duration[kUnitTextBytes];
  format_duration(duration, sizeof duration, elapsed);
  std::string text = std::string("tidepool: ") + duration;
  if (capacity == 0) {
    text += ", no device memory yet";
  } else {
    text += ", " + shown(held) + " of " + shown(capacity) + " held, " + shown(out) + " out, " + shown(in) +
            " in, ";
    format_duration(duration, sizeof duration, Nanos(static_cast<std::int64_t>(waited)));
    text += std::string(duration) + " waited";
  }
  if (columns > 1 && text.size() >= columns) text.resize(columns - 1);
  return text;
}

ProgressLine::ProgressLine(std::string folder, std::string run_id, Nanos start)
    : folder_(std::move(folder)),
      run_id_(std::move(run_id)),
      start_(start),
      is_terminal_(isatty(STDERR_FILENO) == 1 && !is_dumb()) {}

// The cursor stays at the start of the line, so that a line of the program replaces it.
void ProgressLine::draw() {
  if (!is_terminal_ || !in_foreground()) return;
  put("\r\033[K" +
      progress_text(read_stats_pages(folder_, run_id_), monotonic_now() - start_, columns_of_terminal()) +
      "\r");
  is_drawn_ = true;
}

void ProgressLine::clear() {
  if (is_drawn_ && in_foreground()) put("\r\033[K");
  is_drawn_ = false;
}

}  // namespace tidepool::tools
