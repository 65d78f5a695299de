#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tidepool::plan {

/// Where a trace is read from.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `to` from this place on; what lies behind the end, or cannot be read, becomes zero.
  virtual void read(std::uint64_t offset, std::span<std::uint8_t> to) const = 0;
};

/// A file. It may still be growing.
class TraceFile final : public TraceSource {
 public:
  /// error() says whether it could be opened.
  explicit TraceFile(const std::string& path);
  ~TraceFile() override;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// 0 or an errno.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::uint8_t> to) const override;

 private:
  int fd_ = -1;
  int error_ = 0;
  std::uint64_t size_ = 0;
};

/// Bytes in memory, which must stay.
class TraceBytes final : public TraceSource {
 public:
  explicit TraceBytes(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::uint8_t> to) const override;

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace tidepool::plan
