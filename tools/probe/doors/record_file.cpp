#include "tools/probe/doors/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "allocator/support/text_writer.h"

namespace tidepool::doors {

RecordFile::RecordFile(const char* path) noexcept {
  TextWriter(path_, sizeof path_).put(path);
  TextWriter(part_, sizeof part_).put(path).put(".part");
  fd_ = ::open(part_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

RecordFile::~RecordFile() {
  if (fd_ >= 0) ::close(fd_);
}

RecordFile& RecordFile::begin(std::string_view section, std::string_view kind,
                              std::string_view name) noexcept {
  put(R"({"schema": "tidepool.probe/1", "section": )");
  put_quoted(section);
  return field("kind", kind).field("name", name);
}

RecordFile& RecordFile::field(std::string_view key, std::string_view text) noexcept {
  put(", ");
  put_quoted(key);
  put(": ");
  put_quoted(text);
  return *this;
}

RecordFile& RecordFile::number(std::string_view key, std::int64_t value) noexcept {
  char text[24];
  const auto magnitude = static_cast<std::uint64_t>(value);
  TextWriter(text, sizeof text)
      .put(value < 0 ? "-" : "")
      .put_number(value < 0 ? std::uint64_t{0} - magnitude : magnitude);
  put(", ");
  put_quoted(key);
  put(": ");
  put(text);
  return *this;
}

RecordFile& RecordFile::truth(std::string_view key, bool value) noexcept {
  put(", ");
  put_quoted(key);
  put(value ? ": true" : ": false");
  return *this;
}

void RecordFile::end() noexcept {
  put("}\n");
}

void RecordFile::finish() noexcept {
  if (fd_ < 0) return;
  flush();
  ::close(fd_);
  fd_ = -1;
  (void)::rename(part_, path_);
}

void RecordFile::put(std::string_view text) noexcept {
  for (const char c : text) {
    if (used_ == sizeof buffer_) flush();
    buffer_[used_++] = c;
  }
}

// Names may hold anything; what JSON does not take as it is becomes a question mark or an escape.
void RecordFile::put_quoted(std::string_view text) noexcept {
  put("\"");
  for (const char c : text) {
    if (c == '"' || c == '\\') put("\\");
    put(c >= ' ' && c <= '~' ? std::string_view(&c, 1) : std::string_view("?"));
  }
  put("\"");
}

void RecordFile::flush() noexcept {
  const char* at = buffer_;
  while (fd_ >= 0 && used_ > 0) {
    const ssize_t written = ::write(fd_, at, used_);
    if (written <= 0) break;
    at += written;
    used_ -= static_cast<std::size_t>(written);
  }
  used_ = 0;
}

}  // namespace tidepool::doors
