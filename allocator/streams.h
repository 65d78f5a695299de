#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/block.h"
#include "allocator/captures.h"
#include "allocator/device.h"
#include "allocator/support/long_wait.h"

namespace tidepool::runtime {

/// cuda.h: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD. The null stream is passed here as one of the two, as the
/// entry point that was called means it.
inline constexpr StreamHandle kLegacyStream{1};
inline constexpr StreamHandle kPerThreadStream{2};

/// The most devices that one process manages.
inline constexpr unsigned kMostDevices = 64;

/// A stream of another managed device, as runtimes name it that are not its own: `device` is the number that
/// StreamTable::add_peer() was given. Handles are addresses, so their upper bits are free.
constexpr StreamHandle stream_of_peer(StreamHandle stream, unsigned device) noexcept {
  return StreamHandle{std::uint64_t{device + 1} << 48 | static_cast<std::uint64_t>(stream)};
}
/// The number of the device; -1 for a stream of the runtime's own.
constexpr int peer_of(StreamHandle stream) noexcept {
  return static_cast<int>(static_cast<std::uint64_t>(stream) >> 48) - 1;
}
/// The handle as its own device knows it.
constexpr StreamHandle handle_at_home(StreamHandle stream) noexcept {
  return StreamHandle{static_cast<std::uint64_t>(stream) << 16 >> 16};
}

/// True once the process may have a blocking stream: one that the legacy stream waits for, and that waits for
/// it (CUDA runtime API, stream synchronization behavior). Then each operation in the legacy stream is a
/// barrier, also one that asks nothing of the device. Whoever sees streams being made sets it; it never
/// falls.
extern std::atomic<bool> blocking_streams_exist;

/// Says so where a thread that has waited for device work since then has waited for long.
void report_long_wait(LongWait& wait, Nanos since) noexcept;

/// Events that say how far a stream has come, oldest first. Fixed size: marks are made on the launch path.
class MarkRing {
 public:
  struct Mark {
    std::uint64_t ticket;  ///< everything up to it has completed once the event has
    EventHandle event;
  };
  static constexpr std::size_t kRoom = 64;

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == kRoom; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] Mark& operator[](std::size_t i) noexcept { return marks_[(first_ + i) % kRoom]; }
  [[nodiscard]] Mark& front() noexcept { return marks_[first_]; }
  [[nodiscard]] Mark& back() noexcept { return (*this)[count_ - 1]; }
  void push_back(Mark mark) noexcept { marks_[(first_ + count_++) % kRoom] = mark; }
  void pop_front() noexcept {
    first_ = (first_ + 1) % kRoom;
    --count_;
  }
  /// The oldest mark that covers the ticket; null if none does.
  [[nodiscard]] const Mark* covering(std::uint64_t ticket) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if ((*this)[i].ticket >= ticket) return &(*this)[i];
    }
    return nullptr;
  }

 private:
  std::array<Mark, kRoom> marks_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

/// How far a stream has come. A ticket is drawn for each enqueued operation, after the enqueue has returned;
/// marks are events that say "everything up to ticket n has completed" (design protocol 1).
class Stream {
 public:
  /// As its own device knows it.
  [[nodiscard]] StreamHandle handle() const noexcept { return handle_; }
  /// Its number in the table, as in Use::stream(); never 0.
  [[nodiscard]] std::uint16_t index() const noexcept { return index_; }

  /// A ticket for what the caller has just enqueued. Hook-safe, lock-free.
  Use draw() noexcept { return Use(index_, enqueued_.fetch_add(1, std::memory_order_acq_rel) + 1); }

  /// Uses of this stream that nothing covers yet: whatever comes to cover one of them covers all that the
  /// stream has been given by then. So where a block has one, a later launch need not leave another, if they
  /// are still uncovered once it is enqueued.
  class Uncovered {
   public:
    [[nodiscard]] bool has(std::uint64_t use) const noexcept { return use - first_ < count_; }

   private:
    friend class Stream;
    Uncovered(std::uint64_t first, std::uint64_t end) noexcept : first_(first), count_(end - first) {}
    std::uint64_t first_, count_;
  };
  [[nodiscard]] Uncovered uncovered() const noexcept {
    return {uncovered_.load(std::memory_order_acquire), end_};
  }
  /// They still are. To be asked after the enqueue.
  [[nodiscard]] bool are_still(const Uncovered& uses) const noexcept {
    return uncovered_.load(std::memory_order_acquire) == uses.first_;
  }

 private:
  friend class StreamTable;

  /// What a mark, or a wait for the device, will cover. With the lock, before the driver is asked for either:
  /// then who enqueues after it finds the tickets covered, since the driver puts the two in an order.
  std::uint64_t cover() noexcept {
    const std::uint64_t drawn = enqueued_.load(std::memory_order_acquire);
    uncovered_.store(Use(index_, drawn + 1).raw(), std::memory_order_release);
    return drawn;
  }

  std::atomic<std::uint64_t> key_{0};  // what find() compares; 0: not in use
  StreamHandle handle_{};
  Device* device_ = nullptr;  // whose stream it is: events of its marks are of that device too
  std::uint16_t index_ = 0;
  bool mark_each_ = false;  // per-thread streams: no other thread can record in them
  std::atomic<std::uint64_t> enqueued_{0};
  /// The first use that cover() has not covered, as Use::raw(): later than all that is completed.
  std::atomic<std::uint64_t> uncovered_{0};
  std::uint64_t end_ = 0;  ///< beyond all uses of this entry, as Use::raw()
  std::atomic<std::uint64_t> completed_{0};
  /// Newest copy-in that the stream is already ordered after.
  std::atomic<std::uint64_t> ordered_after_{0};
  std::atomic<std::uint64_t> unmarked_{0};  ///< since the last mark, see mark_sometimes()
  std::atomic<bool> wants_mark_{false};

  std::mutex lock_;
  MarkRing marks_;
  std::vector<EventHandle> spare_events_;  ///< of the table's own device, for marks to come
};

/// Set once a stream of the process has been told to wait for what work may bring about that another stream
/// is given later, such as a value in memory. Without that all order goes from what was enqueued to what is
/// enqueued later, and so may what Tidepool adds. With it, a copy out that comes after work of one stream and
/// before work of another can close a circle: so only what no work uses any more leaves the device.
inline constinit std::atomic<bool> streams_await_values{false};
/// The same for who chooses what leaves. Not where a device was lost: its work never passes, and only who
/// waits for it is told.
inline bool only_idle_may_leave() noexcept {
  return streams_await_values.load(std::memory_order_acquire) &&
         !loss_was_told.load(std::memory_order_relaxed);
}
/// Set once the program has forbidden that streams are made to wait for memory that another one freed
/// (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES).
inline constinit std::atomic<bool> reuse_must_not_wait{false};

/// All streams that the program has used, and our own. Entries are reused once their last mark has passed;
/// tickets of an entry never start again, so an old Use stays valid for ever.
///
/// Streams of other devices can be among them (stream_of_peer): work in them that uses memory of this device
/// is followed like any other. Where such a device is broken nothing of it runs any more, and all its work
/// counts as passed.
class StreamTable {
 public:
  static constexpr std::uint16_t kMaxStreams = 4096;
  static constexpr std::uint64_t kLaunchesPerMark = 16;
  static constexpr std::uint64_t kLaunchesPerCalmMark = 64;  ///< expect_evictions(false)
  static constexpr Bytes kBytesPerMark = MiB(256);
  static constexpr Bytes kBytesPerLaunch{kBytesPerMark.count() / kLaunchesPerMark};

  explicit StreamTable(Device& device) noexcept;
  ~StreamTable();
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  /// The entry of a stream; null when kMaxStreams streams are in use (a use of such a stream counts as a use
  /// by all). Lock-free once the stream is known. The per-thread stream is a different one for each thread.
  Stream* find(StreamHandle handle) noexcept {
    // What a thread found last it looks for next, as a rule. Handles are keys but for per-thread streams, and
    // an entry that is retired has another key.
    const Found& last = t_found;
    if (last.table == id_ &&
        last.stream->key_.load(std::memory_order_acquire) == static_cast<std::uint64_t>(handle)) [[likely]]
      return last.stream;
    return look_up(handle);
  }
  /// Entries that there are, in use or to be used again.
  [[nodiscard]] std::size_t known() const noexcept { return known_.load(std::memory_order_relaxed); }
  /// The entry with this Stream::index(), which was found before; null for 0.
  Stream* at(std::uint16_t index) noexcept { return by_index_[index].load(std::memory_order_acquire); }
  /// The program is about to destroy the stream: records a last mark, so that its tickets can still pass.
  /// Where that fails it waits for the device.
  void retire(StreamHandle handle) noexcept;
  /// The same for the calling thread's own streams, of this device and of its peers.
  void retire_thread() noexcept;

  /// Another device of the process, whose streams may use memory of this one from now on.
  void add_peer(unsigned number, Device& device) noexcept;
  /// Its context is gone, with its streams and events: what they were given has passed.
  void remove_peer(unsigned number) noexcept;
  /// Work of the peer that draws no ticket may use memory of this device: synchronize() waits for it.
  void note_peer(unsigned number) noexcept {
    peers_in_use_.fetch_or(std::uint64_t{1} << number, std::memory_order_acq_rel);
  }
  /// Waits until all work that may use memory of this device is done: for the device, and for its peers whose
  /// streams have used it.
  Status synchronize() noexcept;

  /// After work was enqueued, for which a ticket was drawn or that is covered as uses before it will be
  /// (Stream::uncovered): records a mark if enough happened since the last one. `touched`: what such uses
  /// have not counted. Must be called inside the epoch.
  [[gnu::always_inline]] void mark_sometimes(Stream& stream, Bytes touched) noexcept {
    // A hint: two threads in one stream may lose a count, which costs nothing but a later mark. One launch
    // counts as a share of the bytes that call for a mark, so that one number does for both.
    const std::uint64_t unmarked =
        stream.unmarked_.load(std::memory_order_relaxed) + std::max(touched, kBytesPerLaunch).count();
    stream.unmarked_.store(unmarked, std::memory_order_relaxed);
    const bool each = stream.mark_each_ || captures_under_way.load(std::memory_order_relaxed) > 0;
    if (each || unmarked >= bytes_per_mark_.load(std::memory_order_relaxed)) [[unlikely]]
      mark_now(stream, each);
  }
  /// Are blocks to leave the device? While none is, nobody looks how far the streams have come but who has
  /// freed memory, and marks may be rare. Where streams await values each launch is marked: a mark that is
  /// made later may come behind such a wait, and tell only when that ends. Hook-safe.
  void expect_evictions(bool are_expected) noexcept {
    const std::uint64_t launches = are_expected ? kLaunchesPerMark : kLaunchesPerCalmMark;
    std::uint64_t bytes = kBytesPerLaunch.count() * launches;
    if (bytes_per_mark_.load(std::memory_order_relaxed) == bytes) [[likely]]
      return;
    // Asked only here: after mark_each_launch() the number is neither of the two.
    if (streams_await_values.load(std::memory_order_acquire)) bytes = kBytesPerLaunch.count();
    bytes_per_mark_.store(bytes, std::memory_order_relaxed);
  }
  /// From here on each launch is marked: with streams_await_values, which is set before.
  void mark_each_launch() noexcept {
    bytes_per_mark_.store(kBytesPerLaunch.count(), std::memory_order_relaxed);
  }
  /// Records a mark that covers everything drawn so far.
  Status mark(Stream& stream) noexcept;
  /// mark() for every stream.
  void mark_all() noexcept;
  /// synchronize(), which nobody may call while a stream is captured: then waits for each stream that has
  /// used memory of ours. An error of capture (is_capture_error) where that does not tell.
  Status wait_device() noexcept;

  /// True once the device has finished everything up to the use. Asks the driver only when it must. An error
  /// of the device counts as "not passed"; wait_host() reports it.
  bool passed(Use use) noexcept;
  /// passed(); where it has not, and no mark would ever tell, one is wanted: for where locks are held that
  /// others need. make_marks() is called once they are not.
  bool passed_or_wanted(Use use) noexcept;
  /// Records the marks that are wanted (hints: it may fail). May block in the driver.
  void make_marks() noexcept {
    if (marks_wanted_.load(std::memory_order_relaxed) && marks_wanted_.exchange(false)) [[unlikely]]
      make_wanted_marks();
  }
  /// Makes `waiter` wait on the device until the use has passed; returns at once. kNotReady: another thread
  /// is in the driver with the stream of the use, and perhaps stuck there.
  Status order(Stream& waiter, Use use) noexcept;
  /// Makes `waiter` wait on the device for all uses of the block; on the host, for the whole device, where
  /// more streams have used it than a block remembers. Not for a block that somebody may be using.
  Status order_after_uses(Stream& waiter, const Block& block) noexcept;
  /// order() after a copy-in, remembered, so that one stream waits for one copy once.
  Status order_after_incoming(Stream& waiter, Use incoming) noexcept;
  /// Waits on the host until the use has passed. The only waits of the runtime are here and in synchronize();
  /// a watchdog reports one that takes longer than ten seconds.
  Status wait_host(Use use) noexcept { return wait_host_until(use, kNever); }
  /// The same until `deadline` (monotonic_now()): kNotReady if it has not passed by then, or if only a wait
  /// for the whole device could tell.
  Status wait_host_until(Use use, Nanos deadline) noexcept;

  /// The most slots that a search can have to look at: for checks.
  [[nodiscard]] std::size_t longest_search() noexcept;

 private:
  static constexpr std::size_t kSlots = std::size_t{4} * kMaxStreams;
  static constexpr std::uint16_t kEmpty = 0;
  static constexpr std::uint16_t kTombstone = 0xffff;  // searches go on behind it

  /// The entry that a thread found last, and in which table: tables come and go, their numbers do not.
  struct Found {
    std::uint64_t table;
    Stream* stream;
  };
  // initial-exec: no allocation and no call into the dynamic linker on access.
  static constinit thread_local Found t_found __attribute__((tls_model("initial-exec")));

  Stream* look_up(StreamHandle handle) noexcept;
  static std::uint64_t key_of(StreamHandle handle) noexcept;
  Stream* find_key(std::uint64_t key) noexcept;
  Stream* add(StreamHandle handle, std::uint64_t key) noexcept;
  void empty_slot(std::size_t at) noexcept;  // lock held
  Stream* unused_entry() noexcept;           // lock held
  void mark_now(Stream& stream, bool must) noexcept;
  void make_wanted_marks() noexcept;
  Status wait_all() noexcept;
  Status mark_locked(Stream& stream) noexcept;
  /// Waits for the whole device, after which everything that the stream has drawn has passed: for tickets
  /// that no event will ever cover.
  Status pass_all_locked(Stream& stream) noexcept;
  /// Looks whether the stream has come to the ticket `enough`, by the oldest mark that tells; where none does
  /// the driver is not asked.
  Status poll_locked(Stream& stream, std::uint64_t enough) noexcept;
  /// False for a stream that is gone and for another thread's per-thread stream.
  static bool can_record(const Stream& stream) noexcept;
  DeviceResult<EventHandle> take_event(Stream& stream) noexcept;
  void give_event(Stream& stream, EventHandle event) noexcept;
  void drop_marks(Stream& stream) noexcept;
  Status synchronize(Device& device) noexcept;
  bool is_peers(const Stream& stream) const noexcept { return stream.device_ != &device_; }

  Device& device_;
  const std::uint64_t id_;  ///< of no other table of this process, not 0
  std::array<std::atomic<Device*>, kMostDevices> peers_{};
  std::atomic<std::uint64_t> bytes_per_mark_{kBytesPerMark.count()};  // expect_evictions()
  std::atomic<std::uint64_t> peers_in_use_{0};  // bit: work of the peer may use memory of ours
  std::mutex lock_;  // entries_, and slots_ as written; taken before a Stream's lock, never after it
  std::vector<Stream*> entries_;       // index 0 is not used
  std::atomic<std::size_t> known_{0};  // of entries_
  std::array<std::atomic<Stream*>, kMaxStreams> by_index_{};
  std::array<std::atomic<std::uint16_t>, kSlots> slots_{};
  std::atomic<bool> marks_wanted_{false};
  std::atomic<bool> has_strangers_{false};  // there were more streams at once than entries
  std::mutex events_lock_;
  std::vector<EventHandle> spare_events_;
};

}  // namespace tidepool::runtime
