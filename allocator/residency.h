#pragma once

#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "allocator/arena.h"
#include "allocator/device_sums.h"
#include "allocator/free_list.h"
#include "allocator/handle_pool.h"
#include "allocator/hash_questions.h"
#include "allocator/host_arena.h"
#include "allocator/host_copies.h"
#include "allocator/moves.h"
#include "allocator/size_census.h"
#include "allocator/streams.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "allocator/swap_engine.h"
#include "allocator/turnstile.h"
#include "allocator/wait_clock.h"
#include "allocator/work_name.h"

namespace tidepool::runtime {

/// Decides which blocks are on the device and moves them: the state machine of design section 5, on demand,
/// least recently used first. One slow path per device; every transition is undone when a driver call inside
/// it fails, and the contents survive.
///
/// The table of edges is in docs/explanation/residency.md.
class Residency {
 public:
  Residency(Device& device, Arena& arena, HandlePool& pool, HostArena& host, StreamTable& streams,
            DeviceSums& sums, CheckLevel check) noexcept;
  /// Takes all memory away from the blocks. Only when the device is idle and no other call is under way.
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;
  /// Creates the private streams. Nothing else may be called before it succeeded.
  Status open() noexcept;

  /// Has the device get ready to make hashes, so that what has not changed need not be copied again; where it
  /// cannot, everything is copied. Called once. `memory`: for Device::prepare_hash, not zero yet. May wait
  /// for the device.
  void open_hashes(DevicePtr memory) noexcept;

  /// Makes every live block of `set` usable by work that is enqueued in `stream` from now on, and pins each
  /// entry of `set` once (also freed ones, also twice if named twice) until unpin(set). When it fails nothing
  /// stays pinned. kOutOfMemory: the set is larger than the device may hold, or nothing else can move; other
  /// codes are the driver's.
  /// `stream` may be null: then the calling thread waits for copies in itself.
  /// Waits for device work, holding only the turnstile. `what` names the work in messages.
  Status make_resident(std::span<const BlockId> set, Stream* stream, WorkName what) noexcept;
  void unpin(std::span<const BlockId> set) noexcept;

  /// The program gives the block back. `freed_by`: what must pass before the memory may be used outside that
  /// stream; none: all work on it has been waited for. kInvalidValue if it is freed already. The block keeps
  /// its address and memory together as a pair for take_freed().
  Status free(BlockId id, Use freed_by) noexcept;
  /// The same in the order of a stream, where its work is already ordered after all work on the block.
  Status free_in(BlockId id, Stream& stream) noexcept;
  /// Waits on the host for all work that has used the block so far, as far as a block remembers: with more
  /// streams than that, for the whole device.
  Status wait_for_uses(const Block& block) noexcept;
  /// StreamTable::wait_host(), charged to a cause.
  Status wait_host(Use use, Metric cause) noexcept;
  /// A freed pair for an allocation of `requested` bytes: the same span, or one with at most an eighth
  /// wasted. `stream`: in whose order the memory will be used first; null for use at once anywhere.
  BlockId take_freed(Bytes requested, Bytes span, Stream* stream) noexcept;
  /// It is not given to the program: as if it had not been taken. It is not counted.
  void undo_take(BlockId id) noexcept;
  /// A block at an address of its own, without memory. Where addresses are short, freed blocks give theirs
  /// up, which waits for work that may use them. kOutOfMemory: there are none.
  DeviceResult<BlockId> new_block(Bytes requested, Bytes span) noexcept;
  /// The block counts as one that may move until it is kept or freed.
  void count(Block& block) noexcept;
  /// It is going to stay, so no room need be left for it to move.
  void uncount(Block& block) noexcept;
  /// The largest block that may move, or up to an eighth more.
  [[nodiscard]] Bytes largest() const noexcept { return census_.largest(); }

  /// Runs `change` while no thread is in the slow path. It must not come back here.
  template <class Change>
  void between_turns(Change&& change) noexcept {
    const TurnstileGuard turn(turnstile_);
    change();
  }

  /// Gives memory back to the driver until at most so much is held, as far as anything can move now. True if
  /// that was reached. Other owners of the slow path see nothing of it: the limit stays what it is.
  /// `waits`: also for what may leave in a moment, since a call of the program would fail otherwise.
  bool shrink_to(Bytes most, bool waits = false) noexcept;

  /// Room for a keep() that follows: counted from here on, so that of two threads which find room for one
  /// block more, one has it. What keep() has not taken goes back at the end.
  class Promise {
   public:
    /// Holds if may_keep() so much.
    Promise(Residency& residency, Bytes span) noexcept;
    ~Promise();
    Promise(const Promise&) = delete;
    Promise& operator=(const Promise&) = delete;
    [[nodiscard]] bool holds() const noexcept { return left_ != Bytes(); }

   private:
    friend class Residency;
    Residency& residency_;
    Bytes left_;
  };

  /// make_resident(), and the blocks stay on the device until they are freed.
  Status keep(std::span<const BlockId> set, WorkName what, Promise* promise = nullptr) noexcept;
  /// The same until release() of what is added to `holds`, one for each block that lives. What holds them may
  /// write to them at any time, unseen.
  Status hold(std::span<const BlockId> set, WorkName what, std::vector<Hold>& holds) noexcept;
  /// Blocks that were freed since they were held, where others were allocated at their addresses: those are
  /// held instead. `seen`: held_frees() before the blocks were held; changed when there is nothing more to
  /// look for. Costs two loads where it has not changed. If it fails, what is held is as before.
  Status renew(std::vector<Hold>& holds, std::uint64_t& seen, WorkName what) noexcept;
  /// How many blocks were freed while they were held. Hook-safe.
  [[nodiscard]] std::uint64_t held_frees() const noexcept {
    return held_frees_.load(std::memory_order_acquire);
  }
  /// The block may move again, if nothing else keeps it. Its uses by whoever held it have been noted.
  void release(const Hold& hold) noexcept;
  /// Tells the stats page what is kept. Hook-safe.
  void publish_kept() noexcept;
  /// What blocks may take on the device. Hook-safe.
  [[nodiscard]] Bytes limit() const noexcept { return pool_.limit(); }
  /// Bytes of kept blocks.
  [[nodiscard]] Bytes kept() const noexcept { return Bytes(kept_bytes_.load(std::memory_order_relaxed)); }
  /// Says why an allocation of so much is refused, and counts it: kOutOfMemory. Each that is refused goes
  /// through one of these once. What is asked is not counted as allocated.
  Status refuse(Bytes asked) noexcept;
  Status refuse_to_keep(Bytes asked) noexcept;
  Status refuse_addresses(Bytes asked) noexcept;
  /// Counts a refusal that has been said with a message of its own: kOutOfMemory.
  static Status count_refusal() noexcept;
  /// False if keeping so much more would leave no room for the largest block that moves, or for the most that
  /// one launch has brought together so far.
  [[nodiscard]] bool may_keep(Bytes span) noexcept;
  /// What the limit may not fall below: what is kept, and the largest block that moves or the most that one
  /// launch has brought together so far.
  [[nodiscard]] Bytes least() const noexcept;
  /// May so much be held? Where it may not, whoever keeps the limit is asked to raise it.
  [[nodiscard]] bool fits(Bytes needed) noexcept;
  /// What only the limit's keeper knows.
  struct Surroundings {
    Bytes outside;    ///< of the budget, held by others than blocks
    Bytes allocated;  ///< all that the program has here
    Bytes named;      ///< of what is kept, what tables of addresses name
    Bytes spread;     ///< what slabs could take more of a larger limit: SlabHeap::could_grow_by()
  };
  /// Who is asked; both run in the slow path as well and must not come back here.
  void on_need(bool (*grow)(void* self, Bytes limit), Surroundings (*look)(void* self, Bytes limit),
               void* self) noexcept {
    grow_ = grow;
    look_ = look;
    keeper_ = self;
  }
  /// Where memory would be refused, who is asked to let blocks go that are kept by now for nothing but
  /// caution (NamedBlocks): `give` says whether it had any. Runs in the slow path as well and must not come
  /// back here.
  void on_shortage(bool (*give)(void* self), void* self) noexcept {
    let_go_unneeded_ = give;
    cautious_ = self;
  }
  bool let_go_unneeded() noexcept { return let_go_unneeded_ != nullptr && let_go_unneeded_(cautious_); }
  /// Is `fits()` true, or can it be made so by that? Other threads keep more at any time: asked again as long
  /// as there was some, within bounds, and a last time where another thread may have been as fast.
  template <class Fits>
  bool fits_without_unneeded(Fits&& fits) noexcept {
    for (int asked = 0; asked < kMostAsked; ++asked) {
      if (fits()) return true;
      if (!let_go_unneeded()) break;
    }
    return fits();
  }
  /// Everything is to stay on the device from now on: what is allocated after this must be kept, and what
  /// was allocated before by whoever calls it. Several threads may be at it.
  void begin_freeze() noexcept { freezing_.fetch_add(1, std::memory_order_seq_cst); }
  /// `is_kept`: all of that is kept: nothing is evicted any more. Else it was in vain.
  void end_freeze(bool is_kept) noexcept {
    if (is_kept) {
      frozen_.store(true, std::memory_order_release);
    } else {
      freezing_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  /// TIDEPOOL_CHECK=unmap: once the work named `what`, of which `use` is the last ticket, and all work before
  /// it has ended, takes the addresses away from all blocks that may move. Their memory stays theirs. Waits
  /// for device work, within bounds: what is still used then keeps its address for now.
  void park_idle(Use use, WorkName what) noexcept;
  [[nodiscard]] bool frozen() const noexcept { return frozen_.load(std::memory_order_acquire); }
  /// Must what is allocated be kept? To be asked once the block is in the arena's table: then either this
  /// says so, or whoever began to freeze later finds the block there.
  [[nodiscard]] bool freezing() const noexcept { return freezing_.load(std::memory_order_seq_cst) != 0; }

  /// Gives all that is mapped the access that new mappings get now (Device::set_access): which devices may
  /// reach it has changed. The first error is returned; blocks after it have what they had.
  Status renew_access() noexcept;

  /// Checks the invariants that hold between transitions; null, or the first one broken. Takes the turnstile.
  const char* check() noexcept;
  /// The device's context is gone: see HostArena::abandon.
  void abandon() noexcept {
    host_.abandon();
    questions_.abandon();
  }

 private:
  [[nodiscard]] Surroundings surroundings(Bytes limit = {}) const noexcept;
  /// The --device-budget that leaves blocks so much.
  [[nodiscard]] Bytes budget_for(Bytes limit) const noexcept;
  /// What is asked would fit, if what is there could leave.
  Status refuse_now(Bytes needed) noexcept;
  /// The driver has refused to put a block there as often as it was asked.
  Status give_up(Bytes span, Status error) noexcept;
  /// A set of blocks does not fit on the device beside what is in its way.
  Status refuse_set(WorkName what, Bytes whole, Bytes in_the_way) noexcept;

  static constexpr int kAttempts = 3;
  static constexpr int kMostAsked = 16;     // fits_without_unneeded()
  static constexpr int kMostFailures = 16;  // of one turn; then it is not the block but the device
  static constexpr std::uint64_t kRefusedLater = std::uint64_t{1} << 60;  // beyond all values of last_use
  static constexpr Bytes kGranule = Arena::kChunk;
  static constexpr std::uint64_t kMostWaste = 8;   // of a reused pair, at most one eighth
  static constexpr int kPressure = 8;              // turns for which memory counts as short after it was
  static constexpr std::uint64_t kTurnsAhead = 2;  // ahead(): for so many turns of the slow path
  static constexpr std::uint64_t kMostAhead = 8;   // and at most so large a part of the limit
  static constexpr Nanos kQuiesce = millis(1);     // design protocol 3
  /// How long park_idle() waits for work to end. A kernel that waits for a later launch never does: after one
  /// wait that was in vain it waits the second time, until one is not.
  static constexpr Nanos kParkPatience = seconds(1);
  static constexpr Nanos kParkImpatience = millis(1);
  /// How long the owner of the slow path waits for a hash: longer than kernels take as a rule. One that no
  /// multiprocessor is left for may never come.
  static constexpr Nanos kAnswerPatience = seconds(1);
  /// And for uses of blocks that are to leave, before others do that are idle, though they were used later.
  static constexpr Nanos kUsePatience = millis(100);
  static constexpr Nanos kUseGlance = millis(1);
  /// How long the owner of the slow path waits for launches that hold all other blocks between their check
  /// and their enqueue, before it answers out of memory.
  static constexpr Nanos kPatience = seconds(60);

  // Slow path (turnstile held); residency.cpp
  void pin(std::span<const BlockId> set) noexcept;
  bool usable_now(std::span<const BlockId> set, Copies* copies) noexcept;
  Status order_after(Stream* stream, const Copies& copies) noexcept;
  Status bring_all(std::span<const BlockId> set, WorkName what) noexcept;
  Status bring(BlockId id, WorkName what) noexcept;
  Status map_extents(Block& block) noexcept;
  Status unmap_extents(BlockId id) noexcept;
  Status copy_in(BlockId id, Block& block) noexcept;
  void settle_incoming() noexcept;
  bool wait_for_incoming() noexcept;
  template <class Order>
  Status free_by(BlockId id, Order&& order) noexcept;
  bool move_to_freed(Block& block, StateWord word, Use last) noexcept;
  bool order_after_last_life(Stream& stream, const Block& block) noexcept;
  bool count_kept(Block& block, std::uint32_t life, Promise* promise, bool is_for_good) noexcept;
  void release_kept(Block& block) noexcept;
  void let_go(Block& block) noexcept;
  template <class Change>
  void change_reasons(Block& block, Change&& change) noexcept;

  // TIDEPOOL_CHECK=full: looking at what moves; verifying.cpp
  Status verify_leaving(Eviction& eviction) noexcept;
  Status verify_out(BlockId id, const Block& block, WorkName what) noexcept;
  Arrival look_behind_copy_in(BlockId id, const Block& block, Use* copied) noexcept;
  void verify_arrival(const Arrival& arrival) noexcept;

  // Taking addresses away; parking.cpp
  Status unpark(Block& block, StateWord parked) noexcept;
  Status unmap_keeping(Block& block) noexcept;
  Status wait_for_mapped(Use use) noexcept;
  bool is_idle(const Block& block) noexcept;
  void finish_evictions_that_passed() noexcept;

  // Making room; eviction.cpp
  Status acquire(Block& block) noexcept;
  enum class Patience : std::uint8_t { kNone, kMoment, kMinute };
  bool make_room(Bytes missing, Patience patience) noexcept;
  bool strip_freed() noexcept;
  bool take_left_behind() noexcept;
  bool wait_for_freed() noexcept;
  bool being_copied(BlockId id) const noexcept;
  enum class Victims : bool { kAny, kIdle };
  void start_evictions(Bytes missing, Victims which = Victims::kAny) noexcept;
  void begin_turn() noexcept;
  void note_refusal(BlockId id, Status error) noexcept;
  [[nodiscard]] int refusals_of(BlockId id) const noexcept;
  const std::vector<BlockId>& choose_victims(Bytes missing, Victims which) noexcept;
  bool others_hold_memory() noexcept;
  [[nodiscard]] Bytes ahead() const noexcept;
  void start_leaving(Bytes wanted) noexcept;

  // One block that leaves; leaving.cpp
  void begin_eviction(BlockId id, StateWord chosen) noexcept;
  void publish(Eviction& eviction, Use copied, Step step) noexcept;
  bool start_copy(Eviction& eviction) noexcept;
  void fail(Eviction& eviction, Status error, Use started) noexcept;
  void act_on_answer(Eviction& eviction) noexcept;
  void act_on_answers() noexcept;
  Status wait_for(const Eviction& eviction) noexcept;
  Status wait_for_hashes(BlockId id) noexcept;
  bool has_passed(const Eviction& eviction) noexcept;
  bool is_read_by_copy(const Block& block) noexcept;
  Status see_to_uses(Eviction& eviction) noexcept;
  static bool may_be_waited_for(const Eviction& one) noexcept {
    return one.is_ready || one.step == Step::kUnchanged;
  }
  std::deque<Eviction>::iterator next_to_finish() noexcept;
  bool are_held_up(Nanos patience) noexcept;
  void count_wait_for_copy_out() noexcept;
  bool is_idle_or_marked(const Block& block) noexcept;
  bool finish_eviction() noexcept;
  bool note_copied(const Eviction& eviction) noexcept;
  void end_void(Eviction& eviction) noexcept;
  void finish_all_evictions() noexcept;
  void sweep_evictions() noexcept;
  [[nodiscard]] Bytes leaving() const noexcept;

  void publish_stats() noexcept;
  const char* check_locked() noexcept;
  const char* check_turn() noexcept;
  [[nodiscard]] Bytes slots_in_motion() const noexcept;
  Device& device_;
  Arena& arena_;
  HandlePool& pool_;
  HostArena& host_;
  StreamTable& streams_;
  DeviceSums& sums_;
  SwapEngine engine_;
  HostCopies copies_;        // turnstile
  HashQuestions questions_;  // turnstile
  const CheckLevel check_;

  Turnstile turnstile_;
  std::atomic<bool> frozen_{false};
  std::atomic<std::uint32_t> freezing_{0};  // threads that freeze, or have
  /// What is kept and what is counted as kept change together.
  mutable std::mutex kept_lock_;
  std::mutex promise_lock_;                   // whoever looks for room; taken before kept_lock_
  std::atomic<std::uint64_t> kept_bytes_{0};  // changed with kept_lock_
  std::atomic<std::uint64_t> held_frees_{0};
  std::atomic<std::uint64_t> held_bytes_{0};   // changed with kept_lock_; kept by holds alone
  Bytes promised_;                             // kept_lock_
  std::atomic<std::uint64_t> largest_set_{0};  // bytes of blocks that move, of one launch; by the owner
  bool (*grow_)(void* self, Bytes limit) = nullptr;
  Surroundings (*look_)(void* self, Bytes limit) = nullptr;
  void* keeper_ = nullptr;
  bool (*let_go_unneeded_)(void* self) = nullptr;
  void* cautious_ = nullptr;
  std::deque<Eviction> evictions_;           // turnstile
  std::deque<Incoming> incoming_;            // turnstile
  std::pair<BlockId, StateWord> held_up_{};  // turnstile; of the eviction that are_held_up() waited for last
  std::deque<Lost> lost_;                    // turnstile
  bool waited_for_copy_out_ = false;         // turnstile; since the owner's turn began
  bool host_is_full_ = false;                // turnstile; set by the last start_evictions
  Status device_error_ = kOk;                // turnstile; what a wait on the device answered, if not "done"
  std::uint64_t frees_seen_ = 0;   // turnstile; of freed_.added(), when copies of freed blocks were swept
  int pressure_ = 0;               // turnstile; turns since memory was last short, counted down
  Bytes brought_;                  // turnstile; how much one turn brings in, by experience
  std::vector<Refusal> refusals_;  // turnstile; since the owner's turn began, as are the next two
  int failures_ = 0;               // turnstile; of calls that were to take blocks off the device
  Status failure_ = kOk;           // turnstile; what the last of them was answered
  std::vector<BlockId> wanted_;    // turnstile; what the owner is bringing, sorted
  // turnstile; kept between calls, so that a search for victims seldom needs memory of its own
  std::vector<std::pair<std::uint64_t, BlockId>> candidates_;
  std::vector<BlockId> victims_;
  std::vector<std::pair<BlockId, StateWord>> parking_;
  bool is_patient_ = true;  // turnstile; park_idle() has not lately waited in vain

  std::vector<ContentHash> left_;  // turnstile; by id, of what went to the host (TIDEPOOL_CHECK=full)

  // turnstile; blocks under which memory may have stayed when they left, as the driver would not unmap it
  std::vector<BlockId> left_behind_;

  FreeList freed_;
  SizeCensus census_;
};

}  // namespace tidepool::runtime
