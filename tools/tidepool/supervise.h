#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocator/support/units.h"

namespace tidepool::tools {

/// How a program ended.
struct Ending {
  int start_errno = 0;  ///< not 0: it was never started, because of this
  int exit_code = 0;
  int pid = 0;
  int signal = 0;  ///< not 0: it was ended by this signal, and exit_code means nothing
};

using Ticker = std::function<Nanos()>;

/// Runs a program as a child in this process group and waits for its end. TERM, INT, HUP, QUIT, USR1 and USR2
/// sent to this process are sent on to it; those that a terminal sends reach it anyway and are not sent
/// twice. KILL of this process kills the program too (not what the program started, nor one that has
/// changed its rights). The child has the signal
/// mask and dispositions that this process was started with, and inherits the standard files. As the first
/// process of a container, this one also reaps what others leave.
/// While it runs `ticker`, if there is one, is called again and again, each time after the span that it
/// returned.
Ending supervise(const std::string& path, char* const* arguments, char* const* environment,
                 const Ticker& ticker = {});

/// Ends this process as the program ended: by the same signal, without a core file of its own. For an ending
/// by exit code, or when the signal does not end this process, returns the code to exit with.
int end_like(const Ending& ending);

}  // namespace tidepool::tools
