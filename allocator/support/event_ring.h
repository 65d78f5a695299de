#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "allocator/support/events.h"
#include "allocator/support/log_levels.h"

namespace tidepool {

inline constexpr std::size_t kEventTextBytes = 440;
inline constexpr std::size_t kEventRecordCount = 2048;
inline constexpr std::uint64_t kEventRingMagic = 0x7665'6c6f'6f70'6474;  // "tdpoolev" in memory
inline constexpr std::uint32_t kEventRingVersion = 1;

/// What an event is made of.
struct EventBody {
  std::int64_t time_ns;  ///< CLOCK_MONOTONIC
  std::uint32_t thread;
  std::uint16_t event;
  std::uint16_t text_bytes;
  std::uint64_t values[kMostEventValues];  ///< in the order of the row's fields, without the text
  char text[kEventTextBytes];
};

/// One event in the ring. `state` is 2n + 1 while the event with the number n is written, 2n + 2 once it is
/// there; a reader takes what had the same even state before and after. The body is copied word by word, each
/// stored with release and loaded with acquire, so that this holds on every processor.
struct EventRecord {
  static constexpr std::size_t kWords = sizeof(EventBody) / 8;
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> words[kWords];

  /// Copies the body, of its text only what `text_bytes` says.
  void store(const EventBody& body) noexcept;
  void load(EventBody& body) const noexcept;
};
static_assert(sizeof(EventRecord) == 512 && std::is_trivially_copyable_v<EventBody>);

/// The file `<run_dir>/events.<pid>` as it lies on disk; host byte order.
struct EventRingLayout {
  std::atomic<std::uint64_t> magic;  ///< written last
  std::uint32_t version;
  std::uint32_t record_count;
  std::uint64_t table_hash;
  std::int64_t pid;
  std::int64_t start_unix_ns;  ///< CLOCK_REALTIME when the ring was made
  std::int64_t start_ns;       ///< CLOCK_MONOTONIC at that time
  std::int64_t rank;           ///< from the job starter's variables; -1 without
  char program[64];            ///< zero-terminated
  char run_id[64];             ///< kRunIdVariable; zero-terminated; empty without tidepool run
  std::uint32_t argument_bytes;
  char arguments[2048];  ///< as /proc/PID/cmdline has them, cut
  /// The number of the next event: how many there were. On a cache line of its own: every thread adds to it.
  alignas(64) std::atomic<std::uint64_t> next;
  /// Of these, how many found their place still being written and were lost.
  alignas(64) std::atomic<std::uint64_t> lost;
  alignas(4096) EventRecord records[kEventRecordCount];
};
static_assert(std::is_trivially_destructible_v<EventRingLayout>);

/// The last events of this process, in a shared mapping of a file: they outlive the process however it ends,
/// and `tidepool run` reads them meanwhile. Old ones are overwritten; nobody ever waits for a reader.
class EventRing {
 public:
  static EventRing& instance() noexcept;

  /// Makes the ring and turns the levels on. Does nothing without a run folder, with all levels off, where
  /// the file cannot be made, or when it is open already. Call it where a process first uses CUDA. Returns 0,
  /// or why the file cannot be made, as errno has it.
  int open(const char* run_dir, const LogLevels& levels) noexcept;
  /// In the child after fork(): the ring is the parent's. Nothing is recorded until open() is called again.
  /// Async-signal-safe.
  void reset_after_fork() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return ring_.load(std::memory_order_acquire) != nullptr; }

  void write(Ev event, const EventValues& values) noexcept;

  constexpr EventRing() noexcept = default;
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

 private:
  std::atomic<EventRingLayout*> ring_{nullptr};
};
static_assert(std::is_trivially_destructible_v<EventRing>);

}  // namespace tidepool
