#pragma once

#include <span>

namespace tidepool::tools {

/// Each takes the words after its name and returns the exit code of the command.
int run_command(std::span<char*> words);
int env_command(std::span<char*> words);
int version_command(std::span<char*> words);

}  // namespace tidepool::tools
