#include "tools/simgpu/cmd/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace simgpu::cmd {
namespace {

constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

volatile std::sig_atomic_t g_child = 0;

void pass_on(int signal) {
  if (g_child > 0) ::kill(static_cast<pid_t>(g_child), signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

/// In the child: becomes the command, or writes errno into the pipe.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& variables, int report_fd,
                         pid_t parent) {
  // KILL cannot be passed on by whom it kills; the kernel does it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  const ssize_t written = ::write(report_fd, &error, sizeof error);
  ::_exit(written == static_cast<ssize_t>(sizeof error) ? kCannotRun : kNotFound);
}

/// Why a command could not be run, and what to do.
std::string why_not(const std::string& command, int error) {
  const bool in_path = command.find('/') == std::string::npos;
  struct stat status {};
  const bool there = !in_path && ::stat(command.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) return "is a folder; name a program in it";
  if (there && error == EACCES && (status.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0)
    return "is not executable; chmod +x makes a program or script so";
  if (there && error == ENOENT)
    return "needs an interpreter or loader that is not there; look at its first line, or at file(1)";
  if (error == ENOENT && in_path)
    return "is in none of the folders of PATH; for a program in this folder write ./" + command;
  if (error == EACCES && in_path)
    return "is nowhere in PATH where this user may look and run it; name the program by its path";
  const std::string reason = std::string("cannot be run: ") + std::strerror(error);
  return error == ENOENT ? "is not there; is it the path you meant?" : reason + "; may this user run it?";
}

}  // namespace

Ending run_command(const std::vector<std::string>& command,
                   const std::vector<std::pair<std::string, std::string>>& variables) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) become(command, variables, ends[1], self);
  g_child = child;
  handle(SIGINT, SIG_IGN);
  handle(SIGQUIT, SIG_IGN);
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) handle(signal, &pass_on);
  handle(SIGHUP, &pass_on);
  ::close(ends[1]);
  int error = 0;
  const ssize_t got = ::read(ends[0], &error, sizeof error);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Ending ending;
  ending.pid = child;
  if (got == static_cast<ssize_t>(sizeof error)) {
    ending.started = false;
    ending.exit_code = error == ENOENT ? kNotFound : kCannotRun;
    ending.why = command[0] + " " + why_not(command[0], error) + "; nothing was run";
  } else if (WIFSIGNALED(status)) {
    ending.signal = WTERMSIG(status);
  } else {
    ending.exit_code = WEXITSTATUS(status);
  }
  return ending;
}

void end_like(const Ending& ending) {
  if (ending.signal != 0) {
    const struct rlimit no_core {};
    ::setrlimit(RLIMIT_CORE, &no_core);
    handle(ending.signal, SIG_DFL);
    ::raise(ending.signal);
  }
  std::exit(ending.exit_code);
}

}  // namespace simgpu::cmd
