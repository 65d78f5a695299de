#include "tests/conformance/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

extern char** environ;

namespace conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(1);

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// The same file at a number that none of the child's standard descriptors and none of start()'s has.
int moved_up(int fd) {
  constexpr int kAbove = 16;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, kAbove);
  ::close(fd);
  return moved;
}

pid_t start(const Case& chosen, int verdict_fd, int said_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, verdict_fd, kVerdictFd);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, said_fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, said_fd, STDERR_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string program = "/proc/self/exe";
  std::string option = "--run";
  std::string name = chosen.name;
  std::array<char*, 4> words{program.data(), option.data(), name.data(), nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, program.c_str(), &actions, &attributes, words.data(), environ) != 0) child = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return child;
}

/// The first line that comes before the deadline; empty if none does.
std::string first_line(int fd, Clock::time_point deadline) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) return "";
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return "";
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (const std::size_t end = text.find('\n'); end != std::string::npos) return text.substr(0, end);
  }
}

/// Its wait status, or -1 if it is still there at the deadline.
int status_by(pid_t child, Clock::time_point deadline) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return -1;
    std::this_thread::sleep_for(kTick);
  }
  return status;
}

std::string how_it_ended(int status, int seconds) {
  if (status < 0) return "still running after " + std::to_string(seconds) + " s";
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with " + std::to_string(WEXITSTATUS(status)) + " and no verdict";
}

/// The last line with something on it.
std::string last_line(int fd) {
  std::string text(4096, '\0');
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = size > static_cast<off_t>(text.size()) ? size - static_cast<off_t>(text.size()) : 0;
  const ssize_t got = ::pread(fd, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t start = text.rfind('\n');
  return start == std::string::npos ? text : text.substr(start + 1);
}

}  // namespace

Outcome run_apart(const Case& chosen, int seconds) {
  const auto started = Clock::now();
  const auto deadline = started + std::chrono::seconds(seconds);
  std::array<int, 2> ends{-1, -1};
  Descriptor said(moved_up(::memfd_create("said", MFD_CLOEXEC)));
  if (::pipe2(ends.data(), O_CLOEXEC) != 0 || said.get() < 0) return {"fail", "no descriptors are left", 0};
  Descriptor from(ends[0]);
  Descriptor to(moved_up(ends[1]));
  const pid_t child = start(chosen, to.get(), said.get());
  to.close();
  if (child < 0) return {"fail", "no process can be started", 0};
  const std::string line = first_line(from.get(), deadline);
  const int status = status_by(child, deadline);
  ::kill(-child, SIGKILL);
  if (status < 0) ::waitpid(child, nullptr, 0);
  Outcome outcome;
  outcome.milliseconds = static_cast<long>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started).count());
  const std::size_t space = line.find(' ');
  outcome.verdict = line.substr(0, space);
  if (space != std::string::npos) outcome.detail = line.substr(space + 1);
  if (outcome.verdict == "skip") outcome.verdict = "skipped";
  const bool ended_well = status >= 0 && WIFEXITED(status);
  if (line.empty() || !ended_well) {
    if (!outcome.detail.empty()) outcome.detail += "; ";
    outcome.detail += how_it_ended(status, seconds);
    outcome.verdict = "fail";
  }
  if (outcome.verdict == "fail") {
    if (const std::string last = last_line(said.get()); !last.empty()) outcome.detail += " | " + last;
  }
  return outcome;
}

}  // namespace conformance
