#include "tools/tidepool/supervise.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace tidepool::tools {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// What the process was started with and the child gets back.
struct SignalState {
  sigset_t mask;
  struct sigaction on_child;
};

/// Signals arrive by sigwaitinfo() only. SIGPIPE is held back as well: a reader of our stderr that has gone
/// must not end the supervisor.
sigset_t take_signals(SignalState& before) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : kForwarded) sigaddset(&taken, number);
  sigaddset(&taken, SIGCHLD);
  sigset_t blocked = taken;
  sigaddset(&blocked, SIGPIPE);
  sigprocmask(SIG_BLOCK, &blocked, &before.mask);
  // With SIGCHLD ignored by whoever started us, children would vanish without a status.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &before.on_child);
  return taken;
}

[[noreturn]] void become(const std::string& path, char* const* arguments, char* const* environment,
                         const SignalState& before, int failure_fd, pid_t supervisor) {
  // KILL cannot be sent on by whom it kills; the kernel does it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(128 + SIGKILL);
  sigaction(SIGCHLD, &before.on_child, nullptr);
  sigprocmask(SIG_SETMASK, &before.mask, nullptr);
  execve(path.c_str(), arguments, environment);
  if (errno == ENOEXEC) {
    std::vector<char*> shell{const_cast<char*>("/bin/sh"), const_cast<char*>(path.c_str())};
    for (char* const* word = arguments + 1; *word != nullptr; ++word) shell.push_back(*word);
    shell.push_back(nullptr);
    execve("/bin/sh", shell.data(), environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(failure_fd, &error, sizeof error);
  _exit(127);
}

/// A close-on-exec pipe above the standard numbers, which the program may have been started without.
bool make_pipe(int (&ends)[2]) {
  int raw[2];
  if (pipe2(raw, O_CLOEXEC) != 0) return false;
  for (int i = 0; i < 2; ++i) {
    ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 10);
    close(raw[i]);
  }
  return ends[0] >= 0 && ends[1] >= 0;
}

/// Waits for one of the signals, or for the next tick; -1 after a tick.
int next_signal(const sigset_t& taken, siginfo_t& info, const Ticker& ticker) {
  if (!ticker) return sigwaitinfo(&taken, &info);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t ns = ticker().count();
  const timespec wait{ns / kSecond, ns % kSecond};
  return sigtimedwait(&taken, &info, &wait);
}

/// Reaps what has ended; true, with its status, once that was `child`.
bool reap(pid_t child, int* status) {
  for (;;) {
    int ended_how = 0;
    const pid_t ended = waitpid(-1, &ended_how, WNOHANG);
    if (ended <= 0) return false;
    if (ended == child) return *status = ended_how, true;
  }
}

}  // namespace

Ending supervise(const std::string& path, char* const* arguments, char* const* environment,
                 const Ticker& ticker) {
  Ending ending;
  int failure[2];
  if (!make_pipe(failure)) return ending.start_errno = errno, ending;
  SignalState before;
  const sigset_t taken = take_signals(before);
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) become(path, arguments, environment, before, failure[1], self);
  if (child < 0) ending.start_errno = errno;
  ending.pid = child;
  close(failure[1]);
  int error = 0;
  if (child > 0 && read(failure[0], &error, sizeof error) == sizeof error) ending.start_errno = error;
  close(failure[0]);
  if (child < 0) return ending;

  int status = 0;
  while (!reap(child, &status)) {
    siginfo_t info;
    const int number = next_signal(taken, info, ticker);
    // A positive code means the kernel sent it: the terminal, to every process of the group.
    if (number > 0 && number != SIGCHLD && info.si_code <= 0) kill(child, number);
  }
  if (WIFSIGNALED(status)) {
    ending.signal = WTERMSIG(status);
  } else {
    ending.exit_code = WEXITSTATUS(status);
  }
  return ending;
}

int end_like(const Ending& ending) {
  if (ending.signal == 0) return ending.exit_code;
  prctl(PR_SET_DUMPABLE, 0);
  signal(ending.signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, ending.signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(ending.signal);
  return 128 + ending.signal;
}

}  // namespace tidepool::tools
