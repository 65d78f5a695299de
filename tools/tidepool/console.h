#pragma once

namespace tidepool::tools {

/// Exit codes of the command itself, as env(1) and timeout(1) use them.
inline constexpr int kExitRefused = 125;        ///< the command was used wrongly or could not do its part
inline constexpr int kExitNotExecutable = 126;  ///< the program is there but cannot be run
inline constexpr int kExitNotFound = 127;       ///< there is no such program

/// Keeps a duplicate of stderr for say(). Call it before anything is opened: where stderr is closed, the next
/// file opened would take its number and get the messages.
void open_console();

/// Writes one line "tidepool: <text>" to the stderr of the start; nothing where there was none. All of the
/// command's words about a run go this way: stdout belongs to the program.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

}  // namespace tidepool::tools
