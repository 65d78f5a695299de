#pragma once

#include <string>

#include "tests/conformance/case.h"

namespace conformance {

struct Outcome {
  std::string verdict;  ///< "pass", "fail" or "skipped"
  std::string detail;
  long milliseconds = 0;
};

/// Runs the case in a process of its own (this program, with --run), at most so many seconds. Whatever it
/// leaves running is ended. Thread-safe.
Outcome run_apart(const Case& chosen, int seconds);

/// The descriptor at which a process started by run_apart() finds where its verdict goes.
constexpr int kVerdictFd = 3;

}  // namespace conformance
