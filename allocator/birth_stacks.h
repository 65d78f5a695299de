#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "planner/plan/trace_writer.h"

namespace tidepool::runtime {

/// Call stacks for the recorder: where in the program an allocation was made. The unwinder is libunwind,
/// opened when it is needed and never linked: linked, it would take over the C++ exceptions of the whole
/// process.
///
/// Each different stack is written to the trace once, as modules and offsets; tools turn them into lines
/// later. Thread-safe. Hook-safe but for what the unwinder and the dynamic linker do for a stack that is new:
/// they take the linker's lock.
class BirthStacks {
 public:
  /// Opens the unwinder. False: there is none on this system.
  bool open() noexcept;

  /// The number of the caller's stack, which `writer` has been told; 0 if it is not known.
  std::uint32_t capture(plan::TraceWriter& writer) noexcept;

  /// In a forked child: nothing has been written to its trace.
  void reset_after_fork() noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<std::uint32_t> id{0};
  };
  static constexpr std::size_t kSlots = 1 << 16;
  static constexpr std::size_t kProbes = 32;
  static constexpr std::size_t kMostModules = 1024;

  std::uint32_t add(std::uint64_t hash, void* const* addresses, int count,
                    plan::TraceWriter& writer) noexcept;
  std::uint32_t module_of(const void* base, const char* path, plan::TraceWriter& writer) noexcept;

  int (*backtrace_)(void** addresses, int room) = nullptr;
  Entry entries_[kSlots];
  std::mutex lock_;
  const void* modules_[kMostModules] = {};  // lock_; the id is the index + 1
  std::uint32_t module_count_ = 0;          // lock_
  std::uint32_t stack_count_ = 0;           // lock_
};

}  // namespace tidepool::runtime
