#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "allocator/arena.h"
#include "allocator/device_sums.h"
#include "allocator/epoch.h"
#include "allocator/handle_pool.h"
#include "allocator/host_arena.h"
#include "allocator/named_blocks.h"
#include "allocator/residency.h"
#include "allocator/slab.h"
#include "allocator/streams.h"
#include "allocator/support/budget_control.h"
#include "allocator/support/no_cancel.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

/// The managed memory of one device: what the shim talks to. Allocates, frees, and lets work through once
/// everything it touches is on the device (launch, call_blocking).
///
/// Thread-safe. Nothing here throws. Hook-safe in the sense of style 2.4: when all blocks are resident,
/// launch() neither allocates nor locks nor enters the kernel.
class Runtime {
 public:
  /// Reserves the address space and opens the private streams. `host_total`: the host's memory. `number`: its
  /// own among the runtimes of the process, below kMostDevices.
  static DeviceResult<Runtime*> create(Device& device, const Options& options, Bytes host_total,
                                       unsigned number = 0) noexcept;
  /// Gives everything back to the device, which must be idle. A process never does this (hooks can run until
  /// it has ended); tests do.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// The most device memory that the process may hold: min(budget, device - reserve).
  [[nodiscard]] Bytes capacity() const noexcept { return Bytes(capacity_.load(std::memory_order_relaxed)); }
  /// What of it is neither allocated here nor held outside.
  [[nodiscard]] Bytes free_bytes() const noexcept { return capacity() - outside() - allocated(); }
  /// Changes the budget while the program runs: blocks leave until it is kept, as far as they can move now;
  /// what cannot leaves at later launches. It does not become less than what the program is known to
  /// need at once, and grows again where it turns out to need more. Waits for device work.
  BudgetOutcome set_budget(Amount budget) noexcept;
  /// Does what was asked of the process from outside (`tidepool set`), if anything was. Whoever asks for
  /// memory, or for work that uses it, does so first. Two loads where nothing was asked.
  void obey() noexcept {
    if (listener_.is_asked()) [[unlikely]]
      obey_request();
  }
  /// Memory that the process holds on the device without us, which counts against the budget from here on.
  void set_outside(Bytes outside) noexcept;
  /// Blocks leave until no more is held than may be; false: not enough could move now. Waits for device work.
  bool keep_limit() noexcept;
  /// Gives up to `size` bytes of what is held to the driver; they may be taken again when they are needed.
  /// False: nothing could be given.
  bool give_back(Bytes size) noexcept;
  /// Device memory that is held here, in use or not: no more can be given back.
  [[nodiscard]] Bytes held() const noexcept { return pool_.created(); }
  [[nodiscard]] Bytes outside() const noexcept { return Bytes(outside_.load(std::memory_order_relaxed)); }
  /// What the program has been given and has not freed (whole granules).
  [[nodiscard]] Bytes allocated() const noexcept;

  /// An address for `size` bytes; memory is put behind it when work first touches it. kInvalidValue: size 0;
  /// kOutOfMemory: device and host tiers together could not hold it.
  DeviceResult<DevicePtr> allocate(Bytes size) noexcept { return allocate_for(size, nullptr, 0); }
  /// The same for work that comes after this point in the stream, and for whatever is ordered after that
  /// (cuMemAllocAsync): may be given memory that the stream has freed and not yet stopped using. `tag` (below
  /// 128) stays with the allocation.
  DeviceResult<DevicePtr> allocate_in(Bytes size, StreamHandle stream, std::uint8_t tag = 0) noexcept;
  /// Waits for the device, as cuMemFree does, then takes the memory back. kInvalidValue: not the start of a
  /// live allocation. An error of the device is returned as it is and nothing is freed.
  Status free(DevicePtr at) noexcept;
  /// Takes the memory back at this point of the stream, for which nothing waits (cuMemFreeAsync). All work on
  /// it must be ordered before.
  Status free_in(DevicePtr at, StreamHandle stream) noexcept;
  [[nodiscard]] bool owns(std::uint64_t address) const noexcept { return arena_->contains(address); }

  /// What the device answers to every call: kOk, or the error with which it was lost, as soon as the driver
  /// knows of it.
  Status device_status() noexcept;
  /// The same for what is answered without the driver, which asks this first: once any call has told the
  /// program of a loss (loss_was_told) all do. Before that the device is asked at each
  /// kAnswersPerQuestion-th.
  Status loss() noexcept;
  static constexpr std::uint32_t kAnswersPerQuestion = 64;

  /// The live allocation that holds the address; size zero when there is none.
  Allocation describe(DevicePtr at) noexcept;

  /// Ids of all live blocks, for work that may touch anything.
  [[nodiscard]] std::vector<BlockId> live_blocks() const;

  /// For looking up many addresses.
  [[nodiscard]] const Arena& arena() const noexcept { return *arena_; }
  /// The managed block at the address, for the sets given below; kNoBlock if there is none.
  [[nodiscard]] BlockId find(std::uint64_t address) const noexcept { return arena_->find(address); }

  /// Runs `enqueue()` (which returns a CUresult as int, and only enqueues work in `stream`) with every block
  /// of `set` on the device and none of them evictable before its tickets are stored. Returns what `enqueue`
  /// returned, or the code with which the set could not be made resident.
  template <class Enqueue>
  int launch(std::span<const BlockId> set, StreamHandle stream, WorkName what, Enqueue&& enqueue) noexcept {
    if (set.empty()) return enqueue();
    const auto block = [&] { return call_blocking(set, stream, what, enqueue); };
    return launch_or(set, EpochRegistry::bits_of(set), stream, enqueue, block);
  }
  /// Its first half, for some blocks, whose bits are known (EpochRegistry::bits_of): where not all of them
  /// can be used as they are, returns what `otherwise()` does.
  template <class Enqueue, class Otherwise>
  int launch_or(std::span<const BlockId> set, std::uint64_t bits, StreamHandle stream, Enqueue&& enqueue,
                Otherwise&& otherwise) noexcept;
  /// The same for calls that wait for the device themselves (synchronous copies).
  template <class Call>
  int call_blocking(std::span<const BlockId> set, StreamHandle stream, WorkName what, Call&& call) noexcept;

  /// The stream has been given work that is none of a launch()'s: a graph's, or such as names no block. Where
  /// a free cannot wait for the whole device, since a stream is captured, it waits for this. Not for work
  /// that goes into a graph. Hook-safe as launch().
  /// Returns the use that covers it; none where the stream is not known.
  Use note_work(StreamHandle stream) noexcept;
  /// TIDEPOOL_CHECK=unmap, after work of which `use` is what note_work() returned: as behind work that names
  /// memory, waits for it (within bounds) and takes the addresses of what is idle away. Not hook-safe where a
  /// call may not wait: not while a stream is captured.
  void park_idle(Use use, WorkName what) noexcept { residency_.park_idle(use, what); }

  /// The block at the address stays on the device until it is freed: something refers to it that we cannot
  /// follow.
  Status keep(DevicePtr at, WorkName what) noexcept;
  /// The same for all of these blocks that are live; if it fails, none of them was kept by it.
  Status keep(std::span<const BlockId> ids, WorkName what) noexcept {
    obey();
    return residency_.keep(ids, what);
  }
  /// The same until let_go() of what is added to `holds`: something whose end is seen refers to them, and may
  /// write to them.
  Status hold(std::span<const BlockId> ids, WorkName what, std::vector<Hold>& holds) noexcept {
    obey();
    return residency_.hold(ids, what, holds);
  }
  /// Before work that uses what is held: Residency::renew().
  Status renew(std::vector<Hold>& holds, std::uint64_t& seen, WorkName what) noexcept {
    return residency_.renew(holds, seen, what);
  }
  [[nodiscard]] std::uint64_t held_frees() const noexcept { return residency_.held_frees(); }
  /// They stay as long as addresses lead to them that are in AddressTables by now, and longer: see
  /// NamedBlocks.
  Status hold_named(std::span<const BlockId> ids, WorkName what) noexcept {
    obey();
    return named_.hold(ids, what);
  }
  /// They may move again once these uses have passed; `is_used_widely`: once all work of the device has.
  void let_go(std::span<const Hold> holds, std::span<const Use> uses, bool is_used_widely) noexcept;
  /// True while the device has room for all that the program has there. Hook-safe.
  [[nodiscard]] bool holds_all() const noexcept { return allocated() <= pool_.limit(); }
  /// What one launch can have on the device of blocks that move, and what a block takes of that. Hook-safe.
  [[nodiscard]] Bytes room_to_move() const noexcept {
    return pool_.limit() - std::min(pool_.limit(), residency_.kept());
  }
  [[nodiscard]] Bytes room_taken_by(BlockId id) const noexcept {
    const Block& block = arena_->block(id);
    return block.kept.load(std::memory_order_relaxed) ? Bytes() : block.span;
  }

  /// Runs `call()`, by which work that names the blocks goes into a graph, with all of them on the device:
  /// the driver looks at some of them. They need not stay. Also for what the driver reads before the stream
  /// gets there: copies in have ended.
  template <class Call>
  int call_captured(std::span<const BlockId> ids, WorkName what, Call&& call) noexcept {
    const NoCancel no_cancel;
    obey();
    if (const Status status = residency_.make_resident(ids, nullptr, what); !status.ok())
      return status.code();
    const int code = static_cast<int>(call());
    residency_.unpin(ids);
    return code;
  }
  /// keep() for everything, now and later: from here on nothing is evicted. kOutOfMemory, with a message that
  /// names `what`: not everything fits, and nothing has changed.
  Status freeze(WorkName what) noexcept;
  [[nodiscard]] bool frozen() const noexcept { return residency_.frozen(); }

  /// A stream is about to be captured into a graph (begin_capture() has counted it). Work that goes
  /// into a graph is no use of memory: it is not given to launch().
  void capture_begins() noexcept { streams_.mark_all(); }

  /// A stream is about to be told to wait for a value (streams_await_values is set). What the streams have
  /// been given before is marked, since no mark in the one that waits tells of it afterwards.
  void stream_will_wait() noexcept {
    streams_.mark_all();
    streams_.mark_each_launch();
  }

  void stream_destroyed(StreamHandle stream) noexcept { streams_.retire(stream); }

  // Other devices of the process, whose streams may use memory of this one: launch() and all that names a
  // stream take them as stream_of_peer(). See StreamTable.
  void add_peer(unsigned number, Device& device) noexcept { streams_.add_peer(number, device); }
  void remove_peer(unsigned number) noexcept { streams_.remove_peer(number); }
  /// Work of the peer that is not given to launch() may use memory that stays here: a free waits for it.
  void note_peer(unsigned number) noexcept { streams_.note_peer(number); }
  /// Which devices may reach this one's memory has changed (what Device::set_access gives). Waits for its
  /// turn in the slow path.
  Status renew_access() noexcept { return residency_.renew_access(); }

  /// The device's context is gone with everything in it: gives host memory back to the system and must not be
  /// called again. Driver objects are not touched.
  void abandon() noexcept {
    leave();
    residency_.abandon();
  }

  /// Waits for all work of the device; while a stream is captured, for all streams that have used memory of
  /// ours.
  Status wait_idle() noexcept { return streams_.wait_device(); }

  /// Null, or the first invariant that is broken. Waits for its turn in the slow path.
  const char* check() noexcept { return residency_.check(); }

 private:
  Runtime(Device& device, std::unique_ptr<Arena> arena, const Options& options, Bytes capacity,
          Bytes host_budget, unsigned number) noexcept;

  /// Is there more to do before work is let through than to see to its blocks?
  [[nodiscard]] bool must_look() const noexcept { return pool_.wants_attention() || listener_.is_asked(); }
  [[gnu::cold]] void obey_request() noexcept;
  [[nodiscard]] BudgetOutcome change_budget(Amount budget) noexcept;  // requests_lock_ held
  bool grow_limit(Bytes limit) noexcept;
  void shrink_to_budget(BudgetOutcome& outcome) noexcept;
  void apply_limit() noexcept;  // limits_lock_ held
  /// What a launch finds of its blocks, inside the epoch.
  enum class Look : std::uint8_t {
    kAway,   ///< one is not usable as it is
    kNew,    ///< all are; this use of them is to be noted
    kNoted,  ///< and each has a use that stands for this one as well (Stream::uncovered)
  };
  Look look_at(std::span<const BlockId> set, Stream::Uncovered uncovered) noexcept;
  Use note_uses(std::span<const BlockId> set, Stream* stream) noexcept;
  void note_other_use(Block& block, Use use) noexcept;
  bool reserve(Bytes span) noexcept;
  void unreserve(Bytes span) noexcept;
  void give_back_host() noexcept;
  void prepare_hashes() noexcept;
  void publish_allocated() noexcept;
  /// Nothing of the process waits for this device any more, or counts what it had.
  void leave() noexcept;
  Status be_a_barrier(Stream& stream) noexcept;
  DeviceResult<DevicePtr> allocate_for(Bytes size, Stream* stream, std::uint8_t tag) noexcept;
  DeviceResult<DevicePtr> allocate_block(Bytes size, Stream* stream, std::uint8_t tag) noexcept;
  Status keep_new(BlockId id, Bytes size) noexcept;
  [[gnu::cold]] bool may_serve(BlockId id) noexcept;
  Status hold_new(BlockId id, Bytes size) noexcept;
  void forget_words(DevicePtr at) noexcept;
  Status keep_all(WorkName what) noexcept;

  Device& device_;
  const std::unique_ptr<Arena> arena_;
  const Options options_;
  const Bytes min_block_;
  DeviceSums sums_;
  const DeviceResult<EventHandle> pulse_;  // never recorded: done, unless the device is lost
  HandlePool pool_;
  HostArena host_;
  StreamTable streams_;
  Residency residency_;
  AddressTables& tables_;
  NamedBlocks named_;
  SlabHeap slabs_;
  EpochRegistry& epochs_;

  BudgetListener listener_;
  std::mutex requests_lock_;  // whoever takes a request and sees to it; taken before the slow path's turn
  std::mutex limits_lock_;    // budget_ and whoever works out the limit; the last of all locks
  Amount budget_;
  std::atomic<std::uint64_t> capacity_;
  std::atomic<std::uint64_t> outside_{0};
  std::uint64_t most_;   // limits_lock_; the most that capacity_ was asked to be
  std::byte apart_[64];  // what every launch reads does not share a line with what allocations write
  std::atomic<std::uint64_t> block_bytes_{0};  // allocated, without slabs
  std::atomic<std::uint32_t> answers_{0};      // a hint: threads may lose a count
  std::atomic<bool> hashes_prepared_{false};
  std::atomic<std::uint32_t> hash_tries_{0};
};

// Inlined into the hook, whose arguments then stay where they are instead of being gathered for a closure.
template <class Enqueue, class Otherwise>
[[gnu::always_inline]] inline int Runtime::launch_or(std::span<const BlockId> set, std::uint64_t bits,
                                                     StreamHandle handle, Enqueue&& enqueue,
                                                     Otherwise&& otherwise) noexcept {
  Stream* const stream = streams_.find(handle);
  EpochRegistry::Slot* const slot = epochs_.mine();
  if (slot != nullptr && stream != nullptr) [[likely]] {
    EpochGuard epoch(slot, bits);
    const Stream::Uncovered uncovered = stream->uncovered();
    const Look look = look_at(set, uncovered);
    if (look != Look::kAway && !must_look()) [[likely]] {
      const int code = enqueue();
      if (look == Look::kNoted && stream->are_still(uncovered)) [[likely]] {
        StatsPage::instance().add(Metric::launches_total, 1);
        streams_.mark_sometimes(*stream, Bytes());
      } else {
        note_uses(set, stream);
      }
      return code;
    }
  }
  return otherwise();
}

[[gnu::always_inline]] inline Runtime::Look Runtime::look_at(std::span<const BlockId> set,
                                                             Stream::Uncovered uncovered) noexcept {
  Block* const blocks = arena_->blocks();
  const std::uint64_t now = StatsPage::instance().get(Metric::launches_total) + 1;
  Look look = Look::kNoted;
  for (const BlockId id : set) {
    Block& block = blocks[id];
    if (!is_usable(block.load().state())) [[unlikely]]
      return Look::kAway;
    if (!uncovered.has(block.uses[0].load(std::memory_order_relaxed))) [[unlikely]]
      look = Look::kNew;
    block.last_use.store(now, std::memory_order_relaxed);
  }
  return look;
}

template <class Call>
[[gnu::noinline]] int Runtime::call_blocking(std::span<const BlockId> set, StreamHandle handle, WorkName what,
                                             Call&& call) noexcept {
  const NoCancel no_cancel;
  obey();
  if (pool_.is_over_limit()) (void)keep_limit();
  Stream* stream = streams_.find(handle);
  if (const Status status = residency_.make_resident(set, stream, what); !status.ok()) return status.code();
  const auto run = [&] {
    const int code = call();
    const Use use = note_uses(set, stream);
    residency_.unpin(set);
    return std::pair(code, use);
  };
  if (options_.check != CheckLevel::kUnmap) return run().first;
  // Asked for now: a context that has met an illegal address answers nothing any more.
  const WorkName::Text name(what);
  const auto [code, use] = run();
  residency_.park_idle(use, name.c_str());
  return code;
}

}  // namespace tidepool::runtime
