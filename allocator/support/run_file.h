#pragma once

#include <cstddef>

namespace tidepool {

/// Makes `<run_dir>/<stem>.<pid>`, only for this user, of this size and with its place on the disk taken, so
/// that a store through a mapping meets neither a full disk (SIGBUS) nor a limit (SIGXFSZ). Where the name is
/// taken (the process called exec, or its number was used before) `.1`, `.2`, … is added. The descriptor, or
/// -1. Async-signal-safe.
int create_run_file(const char* run_dir, const char* stem, std::size_t bytes) noexcept;

/// Opens for reading the last file that create_run_file() made by this name and for this process id: that of
/// the program which became this one by exec, or of an ended process that had the id. The descriptor, or -1:
/// there is none.
int open_last_run_file(const char* run_dir, const char* stem) noexcept;

}  // namespace tidepool
