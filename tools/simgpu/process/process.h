#pragma once

#include <cstdint>

namespace simgpu {

/// A process, also after it has ended: its pid and when it started, so that no other one ever has the same
/// number. exec() keeps it. 0: none.
using ProcessNumber = std::uint64_t;

inline constexpr unsigned kPidBits = 22;  ///< Linux has pids below 2^22

/// The number of the process with this pid that started so many clock ticks after boot.
constexpr ProcessNumber process_number(std::int32_t pid, std::uint64_t start_time) {
  return start_time << kPidBits | static_cast<std::uint32_t>(pid);
}
constexpr std::uint64_t start_time_of(ProcessNumber process) {
  return process >> kPidBits;
}
constexpr std::int32_t pid_of(ProcessNumber process) {
  return static_cast<std::int32_t>(process & ((std::uint64_t{1} << kPidBits) - 1));
}

/// The calling process; 0 if that cannot be found out: /proc is not there, or no file descriptor is free.
ProcessNumber this_process() noexcept;

/// True if the process has certainly ended, also before somebody has waited for it. False where that cannot
/// be found out. Thread-safe.
bool has_ended(ProcessNumber process) noexcept;

}  // namespace simgpu
