#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/probe/options.h"

namespace tidepool::probe {

/// The word that makes the program a child of itself: what follows is the child's name and its arguments.
inline constexpr std::string_view kChildWord = "--child";
/// Where a child finds the descriptor that it was given.
inline constexpr int kChildDescriptor = 3;

/// This program, executed anew: with a driver of its own, and nothing of ours. It dies with us.
class Child {
 public:
  /// Starts the child; `descriptor`, if not -1, becomes its kChildDescriptor. Throws std::system_error.
  explicit Child(const std::vector<std::string>& words, int descriptor = -1);
  /// Kills it if it has not ended.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line it wrote to its stdout; nothing at its end, or if none comes in time.
  std::optional<std::string> line(std::chrono::milliseconds patience);
  /// Sends SIGKILL, and does not wait.
  void kill();
  /// Waits for its end; kills it if that does not come in time. Returns "" for exit code 0, else how it
  /// ended.
  std::string finish(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string buffer_;
};

/// What a child runs; gets the words behind its name. Lines on stdout go to the parent.
int run_child(std::span<char* const> words);

int exporter_child(std::span<char* const> words);
int scrub_child(std::span<char* const> words);
int faults_child(std::span<char* const> words);

}  // namespace tidepool::probe
