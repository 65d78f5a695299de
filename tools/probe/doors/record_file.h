#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidepool::doors {

/// Writes JSON lines in the form of the hardware probe's ("tidepool.probe/1"). The file appears under its
/// name when it is complete, so that a reader never meets half of one. Async-signal-safe: no allocation, no
/// stdio. For one thread.
class RecordFile {
 public:
  /// Opens "`path`.part"; ok() tells whether that worked. Where it did not, everything else does nothing.
  explicit RecordFile(const char* path) noexcept;
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  [[nodiscard]] bool ok() const noexcept { return fd_ >= 0; }

  /// A line: begin(), any number of field(), end(). `section` and `kind` as the probe has them; `name` says
  /// which result.
  RecordFile& begin(std::string_view section, std::string_view kind, std::string_view name) noexcept;
  RecordFile& field(std::string_view key, std::string_view text) noexcept;
  RecordFile& number(std::string_view key, std::int64_t value) noexcept;
  RecordFile& truth(std::string_view key, bool value) noexcept;
  void end() noexcept;

  /// Puts the file in place under its name.
  void finish() noexcept;

 private:
  void put(std::string_view text) noexcept;
  void put_quoted(std::string_view text) noexcept;
  void flush() noexcept;

  static constexpr std::size_t kLongestPath = 1024;
  static constexpr std::size_t kBuffer = 8192;

  int fd_ = -1;
  std::size_t used_ = 0;
  char path_[kLongestPath];
  char part_[kLongestPath + 8];
  char buffer_[kBuffer];
};

}  // namespace tidepool::doors
