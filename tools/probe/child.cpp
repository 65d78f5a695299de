#include "tools/probe/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace tidepool::probe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exit code " + std::to_string(WEXITSTATUS(status));
}

struct ChildProgram {
  std::string_view name;
  int (*run)(std::span<char* const> words);
};
constexpr ChildProgram kChildren[] = {
    {"exporter", &exporter_child}, {"scrub", &scrub_child}, {"faults", &faults_child}};

}  // namespace

Child::Child(const std::vector<std::string>& words, int descriptor) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  if (descriptor >= 0) ::posix_spawn_file_actions_adddup2(&actions, descriptor, kChildDescriptor);
  const std::string program = "tidepool-probe";
  const std::string child_word(kChildWord);
  std::vector<char*> arguments = {const_cast<char*>(program.c_str()), const_cast<char*>(child_word.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(stdout);
  const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  out_ = pipe[0];
  if (error == 0) return;
  ::close(out_);
  fail(error, "posix_spawn");
}

Child::~Child() {
  if (pid_ > 0) {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
}

std::optional<std::string> Child::line(milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    if (const std::size_t at = buffer_.find('\n'); at != std::string::npos) {
      std::string found = buffer_.substr(0, at);
      buffer_.erase(0, at + 1);
      return found;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now()).count();
    pollfd wanted{out_, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max<long long>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> part{};
    const ssize_t n = ::read(out_, part.data(), part.size());
    if (n <= 0) return std::nullopt;
    buffer_.append(part.data(), static_cast<std::size_t>(n));
  }
}

void Child::kill() {
  ::kill(pid_, SIGKILL);
}

std::string Child::finish(milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return how_it_ended(status);
    }
    if (ended < 0) fail(errno, "waitpid");
    if (Clock::now() >= end) {
      kill();
      ::waitpid(std::exchange(pid_, -1), nullptr, 0);
      return "killed after " + std::to_string(patience.count()) + " ms without an end";
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

int run_child(std::span<char* const> words) {
  constexpr int kExitRefused = 125;
  constexpr unsigned kLongestLife = 120;  // seconds; a driver call that hangs must not leave us behind
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLongestLife);
  for (const ChildProgram& child : kChildren) {
    if (words.empty() || child.name != words[0]) continue;
    try {
      return child.run(words.subspan(1));
    } catch (const std::exception& failure) {
      std::printf("failed %s\n", failure.what());
      std::fflush(stdout);
      return EXIT_FAILURE;
    }
  }
  return kExitRefused;
}

}  // namespace tidepool::probe
