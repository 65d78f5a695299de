#include "tools/simgpu/driver/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "tools/simgpu/driver/readable_name.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

constexpr std::size_t kHandOver = 4096;

void append_text(std::string* to, const std::string& text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') *to += '\\';
    *to += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
}

/// The format counts in microseconds.
std::string micros(std::int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanos) / 1e3);
  return text;
}

}  // namespace

Trace::Trace(const char* path) {
  if (path[0] == '\0') return;
  fd_ = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) report_error(std::string("the trace ") + path + " cannot be opened; nothing is added to it");
}

void Trace::add(const timing::Slice& slice) {
  lines_ += "{\"ph\":\"X\",\"name\":\"";
  append_text(&lines_, slice.name == nullptr ? "work" : readable_name(*slice.name));
  lines_ += "\",\"cat\":\"";
  lines_ += timing::engine_name(slice.engine);
  lines_ += "\",\"pid\":" + std::to_string(slice.device) +
            ",\"tid\":" + std::to_string(static_cast<unsigned>(slice.engine)) +
            ",\"ts\":" + micros(slice.span.start) + ",\"dur\":" + micros(slice.span.end - slice.span.start) +
            ",\"args\":{\"stream\":" + std::to_string(slice.lane) +
            ",\"process\":" + std::to_string(::getpid()) + "}},\n";
  if (lines_.size() >= kHandOver) flush();
}

void Trace::flush() {
  if (lines_.empty()) return;
  // One write of whole lines, so that those of several processes do not mix.
  const ssize_t written = ::write(fd_, lines_.data(), lines_.size());
  if (written != static_cast<ssize_t>(lines_.size())) {
    report_error("the trace cannot be written any more (is the disk full?)");
    ::close(fd_);
    fd_ = -1;
  }
  lines_.clear();
}

}  // namespace simgpu
