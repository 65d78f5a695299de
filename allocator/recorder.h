#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "allocator/birth_stacks.h"
#include "allocator/kernel_table.h"
#include "allocator/support/options.h"
#include "planner/plan/iteration.h"
#include "planner/plan/trace_writer.h"

namespace tidepool::runtime {

/// Writes what this process does with its device into a trace, and watches for iterations. Off unless
/// TIDEPOOL_TRACE asks for it; then callers pay for is_on() alone:
///
///     if (Recorder::is_on()) [[unlikely]] Recorder::instance().launch(...);
///
/// One per process, never destroyed. Thread-safe; hook-safe but for start(), and for what is new to the trace
/// (a kernel, a stack, a piece of the file).
class Recorder {
 public:
  static Recorder& instance() noexcept;
  static bool is_on() noexcept { return on.load(std::memory_order_relaxed); }
  /// True in iterations whose kernels are to be timed.
  static bool is_timing() noexcept { return timing.load(std::memory_order_relaxed); }

  /// Begins if the options say so; does nothing if it has begun. What goes wrong is told once, and then
  /// nothing is recorded.
  void start(const Options& options) noexcept;
  /// The process ends.
  void stop() noexcept;
  /// In a forked child: nothing is recorded, until start(). Only if the parent had started.
  void reset_after_fork() noexcept;

  // One for each thing that happens. Calls of the program are recorded when they have succeeded, but a free
  // before it is done: after it the block may be somebody else's.
  void device(const plan::DeviceRecord& record) noexcept;
  /// `record.stack` is filled in here.
  void allocation(plan::AllocationRecord& record) noexcept;
  void release(const plan::FreeRecord& record) noexcept;
  /// `record.kernel` is filled in here.
  void launch(plan::LaunchRecord& record, const void* function, KernelTable::AskName* ask) noexcept;
  void copy(const plan::CopyRecord& record) noexcept;
  /// Tidepool moved a block. Asks is_on() itself: it has one caller for each kind of move.
  static void move(std::uint32_t block, plan::MoveKind kind, Bytes size,
                   plan::MoveCause cause = plan::MoveCause::kDemand) noexcept {
    if (is_on()) [[unlikely]]
      only.moved({block, kind, cause, size.count()});
  }

  void duration(const plan::DurationRecord& record) noexcept;
  void profile(const plan::ProfileRecord& record) noexcept;
  /// Of the last record that the calling thread has written.
  [[nodiscard]] std::uint64_t last_sequence() noexcept { return writer_.last_sequence(); }

  /// Handles of functions may be given to others from now on: a module was unloaded.
  void forget_kernels() noexcept { kernels_.forget(); }

 private:
  constexpr Recorder() noexcept = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  template <class Record>
  bool write(const Record& record) noexcept;
  template <class Record>
  void operation(const Record& record) noexcept;
  void moved(const plan::MoveRecord& record) noexcept;
  void mark_iteration() noexcept;
  void choose_timing(std::uint64_t period) noexcept;
  void say_end() noexcept;
  bool open_detector() noexcept;

  static std::atomic<bool> on;
  static std::atomic<bool> timing;
  static Recorder only;

  plan::TraceWriter writer_;
  KernelTable kernels_;
  BirthStacks stacks_;
  bool started_ = false;
  bool with_stacks_ = false;
  Bytes most_;
  std::atomic<bool> said_end_{false};
  std::uint32_t profile_iterations_ = 0;
  std::uint64_t timed_period_ = 0;      ///< detector_busy_
  std::uint32_t timed_iterations_ = 0;  ///< of that period; detector_busy_
  std::atomic<bool> detector_busy_{false};
  plan::IterationDetector* detector_ = nullptr;  ///< held by detector_busy_
  alignas(plan::IterationDetector) unsigned char detector_room_[sizeof(plan::IterationDetector)] = {};
};

}  // namespace tidepool::runtime
