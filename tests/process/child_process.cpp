#include "tests/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace tidepool::test {
namespace {

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

[[noreturn]] void become(const Job& job, int in, int out, int err) {
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  if (job.without_stderr) {
    close(STDERR_FILENO);
  } else {
    dup2(err, STDERR_FILENO);
  }
  signal(SIGPIPE, SIG_DFL);
  if (job.with_child_signal_ignored) signal(SIGCHLD, SIG_IGN);
  std::vector<char*> words;
  for (const std::string& word : job.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  auto variables = clean_environment();
  variables.insert(variables.end(), job.variables.begin(), job.variables.end());
  clearenv();
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv(words[0], words.data());
  _exit(99);
}

/// Reads what is there; closes at the end.
void read_some(int& fd, std::string& text) {
  char part[65536];
  const ssize_t n = read(fd, part, sizeof part);
  if (n > 0) {
    text.append(part, static_cast<std::size_t>(n));
  } else {
    close_fd(fd);
  }
}

}  // namespace

Running::Running(const Job& job) : input_(job.input) {
  signal(SIGPIPE, SIG_IGN);
  int in[2];
  int out[2];
  int err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes");
  }
  pid_ = fork();
  if (pid_ == 0) become(job, in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  in_ = in[1];
  out_ = out[0];
  err_ = err[0];
  fcntl(in_, F_SETFL, O_NONBLOCK);
}

Running::~Running() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close_fd(in_);
  close_fd(out_);
  close_fd(err_);
}

void Running::exchange(int timeout_ms) {
  if (input_.empty()) close_fd(in_);
  pollfd ready[] = {{in_, POLLOUT, 0}, {out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (poll(ready, 3, timeout_ms) <= 0) return;
  if (ready[0].revents != 0) {
    const ssize_t n = write(in_, input_.data(), input_.size());
    if (n < 0) input_.clear();
    if (n > 0) input_.erase(0, static_cast<std::size_t>(n));
  }
  if (ready[1].revents != 0) read_some(out_, outcome_.out);
  if (ready[2].revents != 0) read_some(err_, outcome_.err);
}

bool Running::wait_for(const std::string& text) {
  while (outcome_.out.find(text) == std::string::npos) {
    if (out_ < 0) return false;
    exchange(1000);
  }
  return true;
}

Outcome Running::finish() {
  while (out_ >= 0 || err_ >= 0) exchange(1000);
  waitpid(pid_, &outcome_.status, 0);
  pid_ = -1;
  return outcome_;
}

Outcome run(const Job& job) {
  return Running(job).finish();
}

std::string built(const std::string& path) {
  static const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return folder / path;
}

std::string preload_first() {
  static const std::string library = [] {
    std::string line;
    std::ifstream file(built("tests/preload_first"));
    if (!file) throw std::runtime_error("no file " + built("tests/preload_first"));
    std::getline(file, line);
    return line;
  }();
  return library;
}

bool sanitized() {
  return !preload_first().empty();
}

bool is_sweep() {
  return std::getenv("TP_TEST_SWEEP") != nullptr;
}

int seeds_of_sweep() {
  const char* wanted = std::getenv("TP_TEST_SWEEP");
  if (wanted == nullptr) return sanitized() ? 2 : 20;
  const int seeds = std::atoi(wanted);
  if (seeds < 2) throw std::runtime_error("TP_TEST_SWEEP must be a number from 2 on");
  return seeds;
}

std::vector<std::pair<std::string, std::string>> clean_environment() {
  // The sanitizers leave signals to the program, so that it ends as it would without them.
  const std::string handling = "detect_leaks=0:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0";
  std::vector<std::pair<std::string, std::string>> variables = {
      {"PATH", "/usr/bin:/bin"},
      {"HOME", "/nonexistent"},
      {"ASAN_OPTIONS", handling},
      {"TSAN_OPTIONS", handling + ":atexit_sleep_ms=0"}};
  if (!preload_first().empty()) variables.emplace_back("LD_PRELOAD", preload_first());
  return variables;
}

ScratchFolder::ScratchFolder() : path_("/tmp/tidepool-test-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no scratch folder");
}

ScratchFolder::~ScratchFolder() {
  std::filesystem::remove_all(path_);
}

void write_file(const std::string& path, const std::string& text, unsigned mode) {
  std::ofstream(path, std::ios::binary) << text;
  chmod(path.c_str(), static_cast<mode_t>(mode));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tidepool::test
