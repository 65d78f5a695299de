#pragma once

#include <span>

namespace tidepool::tools {

/// Each takes the words after its name and returns the exit code of the command.
#define TP_COMMAND(name, ...) int name##_command(std::span<char*> words);
#define TP_FLAG(...)
#include "tools/tidepool/commands.def"
#undef TP_COMMAND
#undef TP_FLAG

}  // namespace tidepool::tools
