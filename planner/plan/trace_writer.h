#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "allocator/support/units.h"
#include "planner/plan/trace_layout.h"
#include "planner/plan/trace_record.h"

namespace tidepool::plan {

/// Writes the trace of this process, from inside intercepted calls: no thread of its own, no allocation, and
/// in the steady state no system call and no lock. The file is one shared mapping, so what was written is
/// kept however the process ends; it is given room on the disk piece by piece, so that a full disk ends the
/// recording and not the process. Each thread fills a chunk of its own; the records' sequence numbers put
/// them into one order again.
///
/// Hook-safe and thread-safe, but for open(), close() and the destructor, which have the object to
/// themselves.
class TraceWriter {
 public:
  /// Threads that write at the same time; records of further ones are dropped and counted.
  static constexpr std::uint32_t kMaxThreads = 1024;
  /// The smallest size that can be asked for: header, and a chunk for each of a few threads.
  static constexpr Bytes kLeastSize = MiB(1);

  constexpr TraceWriter() noexcept = default;
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// Makes `<folder>/trace.tptrace` (if there is one, `trace.PID.tptrace`, then `trace.PID.1.tptrace`, …) of
  /// at most `most` bytes. Returns 0 or an errno; then nothing is recorded and no file is left. Only the
  /// first call of an object does anything.
  int open(const char* folder, Bytes most) noexcept;

  /// True while records are taken. One load.
  [[nodiscard]] bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }

  /// Appends a record; if it does not fit any more, it is dropped, and counted in the header. True: written.
  template <class Record>
  bool write(const Record& record) noexcept;

  /// Sequence number of the last record that the calling thread has written; 0 if there is none.
  [[nodiscard]] std::uint64_t last_sequence() noexcept;

  /// How the recording stands; kNoSpace with its errno in `end_errno()`.
  [[nodiscard]] TraceEnd end() const noexcept;
  [[nodiscard]] int end_errno() const noexcept;

  /// The process ends well: says so in the header, and nothing is recorded from now on. Records that other
  /// threads are just writing may still appear.
  void close() noexcept;

  /// In a forked child: the file is the parent's and out of reach from now on; nothing is recorded.
  /// Async-signal-safe. The object can be opened again, for a file of the child's own.
  void abandon_after_fork() noexcept;

 private:
  struct Slot;
  static constexpr std::size_t kPathRoom = 4096 + 64;

  Slot* slot_of_thread() noexcept;
  Slot* take_slot() noexcept;
  template <class Record>
  void encode(Slot& slot, std::uint64_t sequence, const Record& record) noexcept;
  bool next_chunk(Slot& slot, std::uint64_t sequence) noexcept;
  bool grow_to(std::uint64_t bytes) noexcept;
  int take_room(std::uint64_t from, std::uint64_t to) noexcept;
  void end_with(TraceEnd end, int why) noexcept;
  void drop() noexcept;
  void set_anchor() noexcept;
  void unmap() noexcept;

  std::atomic<bool> on_{false};
  bool opened_ = false;
  std::uint64_t most_bytes_ = 0;
  TraceHeader* header_ = nullptr;  ///< of the mapping of most_bytes_; only grown_ of it may be touched
  Slot* slots_ = nullptr;          ///< kMaxThreads of them; never unmapped, threads that end write to them
  std::uint64_t id_ = 0;           ///< tells writers apart that lie at the same address one after the other
  std::mutex grow_lock_;
  std::atomic<std::uint64_t> grown_{0};
  std::atomic<bool> anchor_busy_{false};
  /// The file, to open it again when it grows: a descriptor that stayed open could be closed by the program,
  /// and its number then be that of another file.
  char path_[kPathRoom] = {};
  std::uint64_t file_device_ = 0;
  std::uint64_t file_inode_ = 0;
  alignas(64) std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace tidepool::plan
