#include "allocator/support/message.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "allocator/support/events.h"
#include "allocator/support/stats_page.h"
#include "allocator/support/text_writer.h"
#include "allocator/support/units.h"

namespace tidepool {
namespace {

constexpr MessageRow kRows[] = {
#define TP_MESSAGE(code, severity, format, cause, remedy) {#code, Severity::severity, format, cause, remedy},
#include "allocator/support/messages.def"
#undef TP_MESSAGE
};

consteval bool each_has_a_remedy() {
  for (const MessageRow& row : kRows) {
    if (row.severity != Severity::I && row.remedy[0] == '\0') return false;
    if (row.cause[0] == '\0') return false;
  }
  return true;
}
static_assert(each_has_a_remedy(), "an error or a warning tells the user what to do");

constexpr std::uint64_t kPrintedTimes = 5;
constexpr int kLowestFd = 64;  // above what shells and programs use by number
constexpr std::size_t kLongestLine = 1024;

constinit std::atomic<std::uint64_t> g_times[std::size(kRows)] = {};
constinit std::atomic<int> g_fd{STDERR_FILENO};
/// Which file the descriptor was opened on; zeros before open_messages().
constinit std::atomic<std::uint64_t> g_device{0};
constinit std::atomic<std::uint64_t> g_inode{0};
constinit std::atomic<bool> g_quiet{false};
constinit std::atomic<bool> g_names_devices{false};
constinit std::atomic<std::int64_t> g_start_ns{0};

/// "tidepool 83.2s W TP2101 "
TextWriter begin_line(char* buffer, std::size_t size, const MessageRow& row) noexcept {
  const std::int64_t start = g_start_ns.load(std::memory_order_relaxed);
  const std::int64_t ns = start == 0 ? 0 : monotonic_now().count() - start;
  const auto tenths = static_cast<std::uint64_t>(ns) / 100'000'000;
  const char severity = static_cast<char>(row.severity);
  TextWriter out(buffer, size);
  out.put("tidepool ").put_number(tenths / 10).put(".").put_number(tenths % 10).put("s ");
  out.put({&severity, 1}).put(" ").put(row.code).put(" ");
  return out;
}

/// The descriptor to write to, or -1. A program may close every descriptor it does not know and open files of
/// its own under the same numbers: nothing is written to a file that is not the stderr of the start.
int message_fd() noexcept {
  const std::uint64_t device = g_device.load(std::memory_order_relaxed);
  const std::uint64_t inode = g_inode.load(std::memory_order_relaxed);
  const int kept = g_fd.load(std::memory_order_relaxed);
  if (kept < 0 || (device == 0 && inode == 0)) return kept;
  for (const int fd : {kept, STDERR_FILENO}) {
    struct stat now;
    if (fstat(fd, &now) == 0 && now.st_dev == device && now.st_ino == inode) return fd;
  }
  return -1;
}

/// One write(2), so that lines of several processes do not mix. A reader that does not read loses the line
/// instead of stopping the job, and one that has gone does not kill it: SIGPIPE is held back and taken.
void write_line(int fd, const char* line, std::size_t length) noexcept {
  constexpr int kPatienceMs = 100;
  pollfd ready{fd, POLLOUT, 0};
  if (poll(&ready, 1, kPatienceMs) != 1) return;
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  if (write(fd, line, length) < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec kNow{};
    sigtimedwait(&pipe_signal, nullptr, &kNow);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool is_recorded(Severity severity) noexcept {
  const EventLevel level = severity == Severity::E   ? EventLevel::kError
                           : severity == Severity::W ? EventLevel::kWarn
                                                     : EventLevel::kInfo;
  return is_logged(level, Subsystem::message);
}

void record(Msg code, Severity severity, const char* text) noexcept {
  if (severity == Severity::E) return emit<Ev::error>(code, text);
  if (severity == Severity::W) return emit<Ev::warning>(code, text);
  emit<Ev::information>(code, text);
}

}  // namespace

std::span<const MessageRow> message_rows() noexcept {
  return kRows;
}

void open_messages(bool quiet) noexcept {
  const int saved_errno = errno;
  const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, kLowestFd);
  // No stderr at all, or no descriptor left: the number that stderr would have had must not be written to,
  // because another file may come to lie there.
  struct stat file;
  if (fd >= 0 && fstat(fd, &file) == 0) {
    g_device.store(file.st_dev, std::memory_order_relaxed);
    g_inode.store(file.st_ino, std::memory_order_relaxed);
  }
  g_fd.store(fd, std::memory_order_relaxed);
  g_quiet.store(quiet, std::memory_order_relaxed);
  g_start_ns.store(monotonic_now().count(), std::memory_order_relaxed);
  errno = saved_errno;
}

void name_devices() noexcept {
  g_names_devices.store(true, std::memory_order_relaxed);
}

std::uint64_t times_reported(Msg code) noexcept {
  return g_times[static_cast<std::size_t>(code)].load(std::memory_order_relaxed);
}

void detail::write_message(Msg code, int device, const char* format, ...) noexcept {
  const int saved_errno = errno;
  const MessageRow& row = kRows[static_cast<std::size_t>(code)];
  const std::uint64_t before =
      g_times[static_cast<std::size_t>(code)].fetch_add(1, std::memory_order_relaxed);
  if (row.severity == Severity::W) StatsPage::instance().add(Metric::warnings_total, 1);
  const bool silenced = row.severity != Severity::E && g_quiet.load(std::memory_order_relaxed);
  const bool is_printed = !silenced && before < kPrintedTimes;
  const int fd = is_printed ? message_fd() : -1;
  if (fd >= 0 || is_recorded(row.severity)) {
    constexpr char kLast[] = " (Further ones are only counted.)\n";
    char text[kLongestLine - 64];
    std::size_t named = 0;
    if (device != kNoDevice && g_names_devices.load(std::memory_order_relaxed))
      named = static_cast<std::size_t>(std::snprintf(text, sizeof text, "device %d: ", device));
    va_list args;
    va_start(args, format);
    std::vsnprintf(text + named, sizeof text - named, format,
                   args);  // NOLINT(clang-analyzer-valist.Uninitialized): it is
    va_end(args);
    record(code, row.severity, text);
    char line[kLongestLine];
    TextWriter out = begin_line(line, sizeof line - sizeof kLast, row);
    out.put(text);
    std::size_t length = 0;
    while (line[length] != '\0') ++length;
    TextWriter(line + length, sizeof line - length).put(before + 1 == kPrintedTimes ? kLast : "\n");
    while (line[length] != '\0') ++length;
    if (fd >= 0) write_line(fd, line, length);
  }
  errno = saved_errno;
}

}  // namespace tidepool
