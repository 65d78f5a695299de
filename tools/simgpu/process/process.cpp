#include "tools/simgpu/process/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simgpu {
namespace {

/// What proc(5) says of a process or thread.
struct Status {
  char state = '\0';
  int threads = 0;
  unsigned long long start_time = 0;     ///< clock ticks since boot
  unsigned long long address_space = 0;  ///< bytes; 0 once it is about to end
};

/// False if the file cannot be read; errno says why.
bool read_status(const char* path, Status* out) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  if (n <= 0) return false;
  text[n] = '\0';
  // The name is in brackets and may hold anything; the state follows, and the start time is 19 fields later.
  const char* after_name = std::strrchr(text, ')');
  errno = EIO;
  return after_name != nullptr &&
         std::sscanf(after_name + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu %llu",
                     &out->state, &out->threads, &out->start_time, &out->address_space) == 4;
}

bool read_status(std::int32_t pid, Status* out) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  return read_status(path, out);
}

/// A process that is about to end gives up its memory first, then its files, and becomes a zombie last.
bool is_over(const Status& status) {
  return status.state == 'Z' || status.state == 'X' || status.address_space == 0;
}

/// The first thread can end before the others, with pthread_exit().
bool all_threads_are_over(std::int32_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* threads = ::opendir(path);
  if (threads == nullptr) return false;
  bool over = true;
  while (const dirent* thread = ::readdir(threads)) {
    const long id = std::strtol(thread->d_name, nullptr, 10);
    if (id == 0) continue;
    std::snprintf(path, sizeof path, "/proc/%d/task/%ld/stat", pid, id);
    Status status;
    // A thread that is not there any more is over; of others nothing is known.
    const bool read = read_status(path, &status);
    if (read ? !is_over(status) : errno != ENOENT && errno != ESRCH) over = false;
  }
  ::closedir(threads);
  return over;
}

}  // namespace

ProcessNumber this_process() noexcept {
  const std::int32_t pid = ::getpid();
  Status status;
  return read_status(pid, &status) ? process_number(pid, status.start_time) : 0;
}

bool has_ended(ProcessNumber process) noexcept {
  const std::int32_t pid = pid_of(process);
  if (pid == 0) return true;
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  Status status;
  if (!read_status(pid, &status)) return false;
  if (process_number(pid, status.start_time) != process) return true;
  return is_over(status) && (status.threads <= 1 || all_threads_are_over(pid));
}

}  // namespace simgpu
