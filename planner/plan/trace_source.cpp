#include "planner/plan/trace_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tidepool::plan {

TraceFile::TraceFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat file {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) {
    error_ = errno;
  } else if (!S_ISREG(file.st_mode)) {
    error_ = S_ISDIR(file.st_mode) ? EISDIR : EINVAL;
  } else {
    size_ = static_cast<std::uint64_t>(file.st_size);
  }
}

TraceFile::~TraceFile() {
  if (fd_ >= 0) close(fd_);
}

void TraceFile::read(std::uint64_t offset, std::span<std::uint8_t> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  std::fill(to.begin(), to.end(), std::uint8_t{0});
}

void TraceBytes::read(std::uint64_t offset, std::span<std::uint8_t> to) const {
  const std::uint64_t size = bytes_.size();
  const auto from = static_cast<std::size_t>(std::min(offset, size));
  const std::size_t count = std::min(to.size(), static_cast<std::size_t>(size) - from);
  if (count > 0) std::memcpy(to.data(), bytes_.data() + from, count);
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(count), to.end(), std::uint8_t{0});
}

}  // namespace tidepool::plan
