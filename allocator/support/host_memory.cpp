#include "allocator/support/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>

namespace tidepool {
namespace {

/// The number that a one-line file holds; the largest number if there is none ("max", no such file).
std::uint64_t limit_in_file(const char* path) noexcept {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kNone;
  char text[32];
  const ssize_t n = read(fd, text, sizeof text);
  close(fd);
  if (n <= 0) return kNone;
  std::string_view digits(text, static_cast<std::size_t>(n));
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  const Result<Bytes, ParseError> limit = parse_bytes(digits);
  return limit && limit->count() > 0 ? limit->count() : kNone;
}

}  // namespace

Bytes host_memory() noexcept {
  const int saved_errno = errno;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const std::uint64_t physical =
      pages > 0 && page_bytes > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
                                  : GiB(1).count();
  const std::uint64_t v2 = limit_in_file("/sys/fs/cgroup/memory.max");
  const std::uint64_t v1 = limit_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  errno = saved_errno;
  return Bytes(std::min({physical, v1, v2}));
}

}  // namespace tidepool
