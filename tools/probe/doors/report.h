#pragma once

#include "tools/probe/doors/record_file.h"

namespace tidepool::doors {

/// What one side has to say: writes all that it has counted so far. May be called on any thread while others
/// count.
struct Reporter {
  const char* side;      ///< "door", "cupti" or "driver": who counted
  const char* variable;  ///< environment variable that names the file; %p stands for the process
  void (*write)(RecordFile& file) noexcept;
  void (*forget)() noexcept = nullptr;  ///< in a forked child, where no other thread is: as at the start
};

/// True if the reporter's variable names a file.
bool is_report_wanted(const Reporter& reporter) noexcept;

/// From now on the report is written once a second, by a thread that takes no signals, and once more when the
/// process ends: a run that is cut off still tells something. Later calls do nothing. A forked child reports
/// for itself, after a call of its own, into a file of its own (".PID" is added where the name has no %p).
/// Forks are followed from here on, if not before. `reporter` must outlive the process.
void start_report(const Reporter& reporter) noexcept;

/// Writes the report now. One thread at a time; another one that comes meanwhile goes away.
void write_report(bool final) noexcept;

/// A forked child writes nothing of what its parent counted, and forgets it (`Reporter::forget`). For who
/// notes things before the report starts; otherwise start_report() is enough. Later calls do nothing.
void follow_forks(const Reporter& reporter) noexcept;

}  // namespace tidepool::doors
