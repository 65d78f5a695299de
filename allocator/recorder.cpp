#include "allocator/recorder.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "allocator/backoff.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

namespace {

constexpr std::uint32_t kLeastMarked = 8;

}  // namespace

constinit std::atomic<bool> Recorder::on{false};
constinit std::atomic<bool> Recorder::timing{false};
constinit Recorder Recorder::only;

Recorder& Recorder::instance() noexcept {
  return only;
}

void Recorder::start(const Options& options) noexcept {
  const bool is_asked = options.trace != TraceLevel::kOff;
  if (started_ || !is_asked) return;
  started_ = true;
  if (options.run_dir.empty()) {
    report<Msg::TP4001>("TIDEPOOL_RUN_DIR names no folder for it");
    return;
  }
  most_ = options.trace_max;
  if (const int problem = writer_.open(options.run_dir.c_str(), most_); problem != 0) {
    report<Msg::TP4001>(::strerrordesc_np(problem));
    return;
  }
  profile_iterations_ = options.profile_iterations;
  with_stacks_ = options.trace == TraceLevel::kStacks;
  if (with_stacks_ && !stacks_.open()) report<Msg::TP4004>();
  (void)open_detector();
  on.store(true, std::memory_order_release);
}

// Without memory for it the trace has no marks of iterations; the reader finds them as well.
bool Recorder::open_detector() noexcept {
  constexpr std::uint32_t kLongest = plan::IterationDetector::kGuestLongest;
  void* const memory = ::mmap(nullptr, plan::IterationDetector::memory_bytes(kLongest),
                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  detector_ = new (detector_room_) plan::IterationDetector(memory, kLongest);
  return true;
}

void Recorder::stop() noexcept {
  timing.store(false, std::memory_order_relaxed);
  if (on.exchange(false)) writer_.close();
}

void Recorder::reset_after_fork() noexcept {
  if (!started_) return;
  on.store(false, std::memory_order_relaxed);
  timing.store(false, std::memory_order_relaxed);
  timed_period_ = timed_iterations_ = 0;
  writer_.abandon_after_fork();
  kernels_.reset_after_fork();
  stacks_.reset_after_fork();
  detector_busy_.store(false, std::memory_order_relaxed);
  detector_ = nullptr;  // its memory stays: giving it back costs a call, and the child as a rule ends soon
  said_end_.store(false, std::memory_order_relaxed);
  started_ = false;
}

template <class Record>
bool Recorder::write(const Record& record) noexcept {
  if (writer_.write(record)) [[likely]]
    return true;
  say_end();
  return false;
}

// With the trace goes all that serves it alone: a run that goes on for a week pays for it no longer.
void Recorder::say_end() noexcept {
  const plan::TraceEnd end = writer_.end();
  if (end == plan::TraceEnd::kRunning || end == plan::TraceEnd::kClosed || said_end_.exchange(true)) return;
  timing.store(false, std::memory_order_relaxed);
  on.store(false, std::memory_order_relaxed);
  if (end == plan::TraceEnd::kFull) {
    report<Msg::TP4002>(BytesText(most_).c_str());
  } else {
    report<Msg::TP4003>(::strerrordesc_np(writer_.end_errno()));
  }
}

// The detector sees the operations of all threads in one order, a little apart from that of the records at
// most.
template <class Record>
void Recorder::operation(const Record& record) noexcept {
  (void)write(record);
  if (detector_ == nullptr) [[unlikely]]
    return;
  const plan::Operation operation = plan::operation_of(record);
  for (Backoff backoff; detector_busy_.exchange(true, std::memory_order_acquire);) backoff.pause();
  const bool has_ended = detector_->add(operation);
  // Of the shortest periods there would be almost as many marks as operations.
  if (has_ended && detector_->followed_period() >= kLeastMarked) [[unlikely]]
    return mark_iteration();
  detector_busy_.store(false, std::memory_order_release);
}

void Recorder::mark_iteration() noexcept {
  const plan::IterationVerdict verdict = detector_->verdict();
  const bool was_exact = detector_->last_was_exact();
  if (verdict.is_periodic()) choose_timing(verdict.period);
  detector_busy_.store(false, std::memory_order_release);
  if (!verdict.is_periodic()) return;
  (void)write(plan::IterationRecord{verdict.iterations, verdict.period, was_exact ? 1u : 0u});
}

// The iterations behind the first mark of a period are timed. If the period turns out to be another one, what
// was timed belonged to a loop inside, and it begins again.
void Recorder::choose_timing(std::uint64_t period) noexcept {
  if (period != timed_period_) {
    timed_period_ = period;
    timed_iterations_ = 0;
  } else if (is_timing()) {
    ++timed_iterations_;
  }
  timing.store(is_on() && timed_iterations_ < profile_iterations_, std::memory_order_relaxed);
}

void Recorder::duration(const plan::DurationRecord& record) noexcept {
  (void)write(record);
}

void Recorder::profile(const plan::ProfileRecord& record) noexcept {
  (void)write(record);
}

void Recorder::device(const plan::DeviceRecord& record) noexcept {
  (void)write(record);
}

void Recorder::moved(const plan::MoveRecord& record) noexcept {
  (void)write(record);
}

void Recorder::release(const plan::FreeRecord& record) noexcept {
  operation(record);
}

void Recorder::copy(const plan::CopyRecord& record) noexcept {
  operation(record);
}

void Recorder::allocation(plan::AllocationRecord& record) noexcept {
  if (with_stacks_) record.stack = stacks_.capture(writer_);
  operation(record);
}

void Recorder::launch(plan::LaunchRecord& record, const void* function, KernelTable::AskName* ask) noexcept {
  char name[KernelTable::kNameRoom];
  const KernelTable::Kernel kernel = kernels_.find(function, ask, name);
  if (kernel.is_new) [[unlikely]] {
    (void)write(plan::KernelRecord{kernel.id, name});
    kernels_.publish();
  }
  record.kernel = kernel.id;
  operation(record);
}

// Behind the program's own handlers of its end, which may still free memory.
__attribute__((destructor)) static void on_exit() noexcept {
  Recorder::instance().stop();
}

}  // namespace tidepool::runtime
