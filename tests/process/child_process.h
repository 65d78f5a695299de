#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <string>
#include <utility>
#include <vector>

/// Starting programs from tests: exact bytes in and out, exact wait status.
namespace tidepool::test {

/// A program to start.
struct Job {
  std::vector<std::string> words;                              ///< path of the program and its arguments
  std::string input;                                           ///< what it can read on stdin
  std::vector<std::pair<std::string, std::string>> variables;  ///< set on top of clean_environment()
  bool without_stderr = false;                                 ///< start with descriptor 2 closed
  bool with_child_signal_ignored = false;                      ///< start with SIGCHLD ignored
};

/// What became of it.
struct Outcome {
  int status = 0;  ///< as waitpid(2) gives it
  std::string out;
  std::string err;
  /// The exit code, or -N if signal N ended it.
  [[nodiscard]] int code() const { return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status); }
};

/// A started program. Its output is collected by finish().
class Running {
 public:
  explicit Running(const Job& job);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Reads stdout until it contains `text`; false at its end.
  bool wait_for(const std::string& text);
  /// Feeds the rest of the input, collects all output, and waits for the end.
  Outcome finish();

 private:
  void exchange(int timeout_ms);

  std::string input_;
  Outcome outcome_;
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
};

Outcome run(const Job& job);

/// PATH, HOME and what the sanitizers need; nothing of the caller's TIDEPOOL_ variables or LD_PRELOAD. In
/// sanitizer builds LD_PRELOAD names their run-time library.
std::vector<std::pair<std::string, std::string>> clean_environment();

/// How many seeds a sweep over whole runs of a program takes: 20, in sanitizer builds 2; TP_TEST_SWEEP names
/// another number, as the nightly tests do.
int seeds_of_sweep();
/// Is this such a sweep?
bool is_sweep();

/// The file at `path` in the build folder that holds the running program: "bin/tidepool", "tests/stress". No
/// folder of a build is compiled into these programs, so they are the same in every preset.
std::string built(const std::string& path);

/// The sanitizer's run-time library that must be first in LD_PRELOAD; empty in plain builds.
std::string preload_first();

/// True where the programs that tests start are instrumented, which makes them about twenty times as slow.
bool sanitized();

/// A folder under /tmp that is removed with this object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Writes a file; `mode` as chmod(2) takes it.
void write_file(const std::string& path, const std::string& text, unsigned mode = 0644);

/// Names in a folder, sorted.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace tidepool::test
