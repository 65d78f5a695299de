#include "allocator/support/run_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#include "allocator/support/text_writer.h"

namespace tidepool {
namespace {

/// A process that calls exec a thousand times is not expected; the numbers of the next are not kept.
constexpr unsigned kMostFilesPerPid = 1000;

bool take_room(int fd, std::size_t bytes) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return false;
  }
  errno = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  return errno == 0;
}

struct RunFilePath {
  char text[PATH_MAX + 64];
  RunFilePath(const char* run_dir, const char* stem, unsigned attempt) noexcept {
    TextWriter out(text, sizeof text);
    out.put(run_dir).put("/").put(stem).put(".").put_number(static_cast<std::uint64_t>(getpid()));
    if (attempt > 0) out.put(".").put_number(attempt);
  }
};

}  // namespace

int create_run_file(const char* run_dir, const char* stem, std::size_t bytes) noexcept {
  for (unsigned attempt = 0; attempt < kMostFilesPerPid; ++attempt) {
    const RunFilePath path(run_dir, stem, attempt);
    const int fd = open(path.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
      if (take_room(fd, bytes)) return fd;
      const int problem = errno;
      unlink(path.text);
      close(fd);
      errno = problem;
      return -1;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

int open_last_run_file(const char* run_dir, const char* stem) noexcept {
  int last = -1;
  for (unsigned attempt = 0; attempt < kMostFilesPerPid; ++attempt) {
    const int fd = open(RunFilePath(run_dir, stem, attempt).text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) break;
    if (last >= 0) close(last);
    last = fd;
  }
  return last;
}

}  // namespace tidepool
