#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/process/process.h"
#include "tools/simgpu/timing/engines.h"

namespace simgpu::timing {

/// What processes that use the same devices know of each other's time, in memory that they share. All zero is
/// the valid initial state.
struct SharedClock {
  static constexpr std::size_t kSlots = 64;

  enum State : std::uint32_t {
    kFree,
    kJoined,
    kPassedOver,  ///< not waited for until its next call
    kLooksOn,     ///< not waited for until it asks for an engine
  };

  struct Slot {
    std::atomic<std::uint32_t> state;
    std::atomic<ProcessNumber> process;
    std::atomic<std::uint64_t> rank;    ///< who goes first at the same time: the lower one
    std::atomic<Nanos> bound;           ///< it will ask for no engine before this time
    std::atomic<std::uint64_t> calls;   ///< CUDA calls that it began
    std::atomic<std::uint64_t> asks;    ///< how often it asked for an engine
    std::atomic<std::uint32_t> idle;    ///< nothing that it queued has yet to run
    std::atomic<std::uint32_t> inside;  ///< threads that are in one
    std::atomic<std::uint32_t> waits;   ///< it waits for others itself
  };

  std::atomic<ProcessNumber> lock;     ///< who holds it; 0: nobody
  std::atomic<std::uint32_t> epoch;    ///< futex: a bound rose while somebody waited
  std::atomic<std::uint32_t> waiting;  ///< processes that wait for a bound to rise
  std::atomic<std::uint32_t> used;     ///< slots that were ever used
  /// Processes that start together: no engine is given before so many have joined. 0: none are waited for.
  std::atomic<std::uint32_t> expected;
  std::atomic<std::uint32_t> joined;   ///< processes that ever joined
  std::atomic<std::uint64_t> escapes;  ///< how often somebody was not waited for any longer
  std::atomic<Nanos> latest;           ///< when the process that left last ended
  std::array<Slot, kSlots> slots;
  std::array<EngineClocks, kDevices> devices;
};

/// Ends what this process, which is the calling one, had in the clock before exec(). Nobody else in it uses
/// the clock meanwhile.
void forget_process(SharedClock& clock, ProcessNumber process);

/// Gives the engines of shared devices in the order of virtual time, whatever the order in which processes
/// really run: a request for time r is granted once no other process can ask for an earlier one. For that
/// each process says up to where it has come. So the result is the same in every run, except where
/// SharedClock::escapes counts: a process that makes no CUDA call while others wait for it is passed over
/// after a while, until its next call; one that makes calls but has no work for a device, as a monitor does
/// that asks how much memory is free, after a longer while, until it has. Dead processes are passed over too;
/// that changes no result, because they ask for nothing more.
///
/// A process that joins while others run starts at the time of the slowest of them, which is not
/// reproducible; SharedClock::expected is for those that start together.
///
/// take() and promise() are called under the process's device lock, the others by any thread.
class SharedEngines final : public Engines {
 public:
  struct Options {
    std::array<Link, kDevices> links{};
    std::chrono::milliseconds patience{200};  ///< for a process that makes no calls
    std::chrono::milliseconds start{5000};    ///< for processes that are expected
  };

  SharedEngines(SharedClock& clock, const Options& options) : clock_(clock), options_(options) {}

  /// The calling process, `self`, joins; says at what time it starts. `rank` settles who goes first at the
  /// same time; -1: who joined first. False if there are too many processes; nothing else may be called then.
  bool join(ProcessNumber self, int rank, Nanos* start);
  /// This process asks for nothing any more.
  void leave();

  /// A CUDA call begins and ends.
  void enter_call() noexcept;
  void leave_call() noexcept;
  /// The call waits for what another process does, outside of virtual time: until it ends, or the next one
  /// begins, this process holds nobody up. Counts as no escape.
  void stand_aside();

  bool take(const Work& work, Nanos ready, bool may_wait, Span* out) override;
  void promise(Nanos bound, bool idle) override;

 private:
  static constexpr std::size_t kNobody = SharedClock::kSlots;

  [[nodiscard]] SharedClock::Slot& mine() const { return clock_.slots[slot_]; }
  [[nodiscard]] bool blocks(const SharedClock::Slot& other, Nanos ready) const;
  bool find_blocker(Nanos ready, std::size_t* who) const;
  void wait_for(std::size_t who, Nanos ready);
  void judge(std::size_t who, std::chrono::steady_clock::duration slept);
  bool looks_on(std::size_t who, std::chrono::steady_clock::duration slept);
  void come_back() noexcept;

  SharedClock& clock_;
  Options options_;
  std::size_t slot_ = kNobody;
  ProcessNumber self_ = 0;
  // How long this process has waited for whom.
  std::size_t watched_ = kNobody;
  std::uint64_t watched_calls_ = 0;
  std::chrono::steady_clock::time_point watched_since_;
  // For each other: how long this process has waited for it since it last had work for an engine.
  struct Onlooker {
    ProcessNumber process;
    std::uint64_t asks, calls;
    std::chrono::steady_clock::duration waited;
  };
  std::array<Onlooker, SharedClock::kSlots> onlookers_{};
};

}  // namespace simgpu::timing
