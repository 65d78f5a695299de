#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "allocator/device.h"

namespace tidepool::runtime {

/// A run of pinned host memory, whole granules.
struct HostRun {
  std::byte* base = nullptr;
  Bytes size;
};

/// Where the contents of one block lie in host memory: runs in block order. Empty: nowhere.
using HostSlot = std::vector<HostRun>;

/// The host tier: pinned memory for blocks that are out. Anonymous mappings registered with the driver, kept
/// out of forked children (MADV_DONTFORK: a child that copies pinned pages on write would pull them away from
/// under a running copy), grown in chunks. What a spike has left idle is given back (give_back_idle).
///
/// Slots are made of granules that need not be adjacent, so nothing is ever too fragmented to be used; as a
/// rule a slot is one run, since each run is a copy. Thread-safe. Growing maps and registers memory, which is
/// slow: callers do it at allocation, not at launch.
class HostArena {
 public:
  /// `budget`: most bytes ever pinned by all arenas of the process together, rounded down to granules. Chunks
  /// have `chunk` bytes (whole granules). `patience`: for how long memory must have been idle before it is
  /// given back.
  HostArena(Device& device, Bytes budget, Bytes granule, Bytes chunk, Nanos patience = seconds(60)) noexcept;
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// What of the budget the arenas of other devices have not pinned.
  [[nodiscard]] Bytes budget() const noexcept;
  [[nodiscard]] Bytes used() const noexcept;
  /// Did the system or the driver refuse memory within the budget, when it was asked last?
  [[nodiscard]] bool is_refused() const noexcept { return is_refused_.load(std::memory_order_relaxed); }
  [[nodiscard]] Bytes pinned() const noexcept;
  /// In how many pieces what is pinned and not used is.
  [[nodiscard]] std::size_t holes() const noexcept;

  /// Gives the memory back to the system without asking the driver: for when the context that had pinned it
  /// is gone. Nothing else may be called afterwards.
  void abandon() noexcept;

  /// Pins chunks until `pinned() >= wanted` (at most the budget). Fails when the system refuses; what was
  /// pinned before stays usable.
  Status grow_to(Bytes wanted) noexcept;
  /// A slot of `size` bytes (whole granules); grows if it must. kOutOfMemory when the budget is used up.
  DeviceResult<HostSlot> allocate(Bytes size) noexcept;
  /// The slot must not be used any more.
  void release(const HostSlot& slot) noexcept;

  /// To be called now and then, where a call of the driver that may wait for the device does no harm: at
  /// allocations, not at launches. Unpins one chunk that nothing is in, where less than the rest was used, or
  /// asked for by grow_to(), for as long as `patience` says. Each time that memory has to be pinned again
  /// after some was given back, patience doubles, up to an hour. True: a chunk was given back.
  bool give_back_idle(Nanos now) noexcept;

 private:
  // The lock is held in all of these.
  void count_pinned(Bytes size, bool more) noexcept;
  Status add_chunk() noexcept;
  HostRun take(Bytes wanted) noexcept;
  void add_hole(std::byte* base, Bytes size) noexcept;
  void remove_hole(std::map<std::byte*, Bytes>::iterator hole) noexcept;
  void note_need(Bytes needed) noexcept { most_ = std::max(most_, needed); }
  HostRun take_idle_chunk(Bytes keep) noexcept;

  static constexpr Nanos kMostPatience = seconds(3600);
  static constexpr std::int64_t kLooks =
      64;  // in one span of patience, each of which may give one chunk back

  Device& device_;
  const Bytes granule_;
  const Bytes budget_;
  const Bytes chunk_;
  mutable std::mutex lock_;
  std::map<std::byte*, Bytes> chunks_;              // what is registered
  std::map<std::byte*, Bytes> holes_;               // free, coalesced within a chunk
  std::set<std::pair<Bytes, std::byte*>> by_size_;  // the same holes
  std::atomic<std::uint64_t> pinned_{0};            // changed with lock_
  std::atomic<bool> is_refused_{false};             // changed with lock_
  Bytes used_;
  // How much was needed at a time, and when to look again.
  Nanos patience_;
  std::atomic<std::int64_t> next_look_{0};  // monotonic_now(); changed with lock_
  Nanos span_end_{};
  Bytes most_;                   // in this span
  Bytes most_before_;            // in the one before
  bool has_given_back_ = false;  // and nothing was pinned since
};

}  // namespace tidepool::runtime
