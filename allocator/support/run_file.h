#pragma once

#include <cstddef>

namespace tidepool {

/// Makes `<run_dir>/<stem>.<pid>`, only for this user, of this size and with its place on the disk taken, so
/// that a store through a mapping meets neither a full disk (SIGBUS) nor a limit (SIGXFSZ). Where the name is
/// taken (the process called exec, or its number was used before) `.1`, `.2`, … is added. The descriptor, or
/// -1. Async-signal-safe.
int create_run_file(const char* run_dir, const char* stem, std::size_t bytes) noexcept;

}  // namespace tidepool
