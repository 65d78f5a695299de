#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace simgpu::cmd {

/// How a command ended.
struct Ending {
  int exit_code = 0;  ///< meaningful if signal is 0
  int signal = 0;     ///< the signal that ended it, or 0
  pid_t pid = 0;      ///< of the process that it was
  bool started =
      true;  ///< false: it could not be run, exit_code is 126 or 127; `why` says why and what to do
  std::string why;
};

/// Runs the command with these variables added to the environment and waits for it. Interrupts from the
/// terminal are left to it; SIGTERM and SIGHUP are passed on. Throws std::runtime_error if no process can be
/// made.
Ending run_command(const std::vector<std::string>& command,
                   const std::vector<std::pair<std::string, std::string>>& variables);

/// Ends this process as the command ended.
[[noreturn]] void end_like(const Ending& ending);

}  // namespace simgpu::cmd
