#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/host_thread.h"
#include "tools/simgpu/driver/random.h"
#include "tools/simgpu/driver/stream.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu {

class Ledger;
struct Driver;

/// Decides when queued work runs. There is no thread of the device's own: work runs inside API calls, in the
/// calling thread, under the device lock; but host functions run in a thread of theirs.
///
/// Adversarial order: work stays queued as long as the rules allow. What the rules are: an operation runs
/// after the one before it in its stream and after its waits; the legacy stream's waits are added when work
/// is queued. Every other order can happen. The seed chooses among moods that last for some calls: run
/// nothing, run everything, run a little, run all streams but one. So both extremes occur, and for one seed
/// a program with one thread always sees the same order.
///
/// In order: every operation runs in the call that queues it, unless it waits for a value in memory that is
/// not there yet.
///
/// All functions are called with the device lock held; it is released while a host function runs.
class Scheduler {
 public:
  Scheduler(Driver& driver, const MachineConfig& config, Ledger& ledger);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues work; runs older work first if the stream is full. Returns the operation's number.
  std::uint64_t enqueue(const std::shared_ptr<Stream>& stream, Operation&& operation);

  /// Numbers a call, in the order in which the driver's lock was taken. Queued work has the number of its
  /// call.
  std::uint64_t new_call() { return ++calls_; }
  /// The number of the oldest call whose work is still queued; where nothing is, of the latest call.
  [[nodiscard]] std::uint64_t oldest_call() const;

  /// Runs what the mood of the moment says. Called at the end of every call.
  void breathe();

  /// The host waits: runs what is needed until the stream has completed this operation.
  void run_until(const std::shared_ptr<Stream>& stream, std::uint64_t ticket);
  /// The host waits for everything that is queued in this context; null: in every context.
  void drain(const Context* context);
  /// The device runs all that is queued, and the host does not learn of it.
  void run_all();
  /// True if the operation is done. If it is not, work comes nearer to it, so that a loop that asks ends.
  bool poll(const std::shared_ptr<Stream>& stream, std::uint64_t ticket);

  /// Runs what can run now, until nothing can.
  void run_everything_ready();

  /// Throws the queued work of a context away: after an error that ended it.
  void discard(const Context* context);

 private:
  /// Whether a step may wait for a host function that another thread waits for.
  enum class Blocking { kAllowed, kRefused };
  enum class Mood { kNothing, kEverything, kALittle, kAllButOne };

  bool ready(Stream& stream) const;
  void complete(const std::shared_ptr<Stream>& stream, std::uint64_t ticket);
  /// One step towards that operation: runs the first operation of the chain that it waits for. Where that
  /// waits for a value in memory, runs something else that can run, or waits a moment for whoever writes it.
  void step_toward(const std::shared_ptr<Stream>& stream, std::uint64_t ticket,
                   Blocking blocking = Blocking::kAllowed);
  void run_first(const std::shared_ptr<Stream>& stream);
  void count_done(Stream& stream, std::uint64_t ticket);
  /// Runs the first operation of a ready stream, chosen by chance, but not of the stream with this id.
  bool run_some_ready(std::uint64_t except_id);
  void add_legacy_waits(const std::shared_ptr<Stream>& stream, Operation& operation) const;
  void unlist_if_empty(Stream& stream);
  void sweep_unseen();
  void change_mood();

  Driver& driver_;
  std::mutex& device_mutex_;
  Ledger& ledger_;
  HostThread host_thread_;
  Schedule schedule_;
  std::chrono::milliseconds patience_;  ///< with a host function, before what follows it goes on
  Random random_;
  Mood mood_ = Mood::kALittle;
  std::uint64_t mood_left_ = 0;
  std::uint64_t starved_ = 0;  ///< id of the stream that kAllButOne leaves out
  /// One of the streams that have work in this context (null: in any), by chance; null if none has.
  std::shared_ptr<Stream> any_busy(const Context* context);

  /// Streams without work whose latest work no host has waited for; drain() is such a wait.
  std::vector<std::shared_ptr<Stream>> unseen_;
  std::size_t sweep_unseen_at_ = 64;
  std::uint64_t calls_ = 0;
  std::vector<std::shared_ptr<Stream>> busy_;  ///< streams with queued work, in the order they got it
  std::vector<std::size_t> candidates_;        ///< scratch of run_some_ready
};

}  // namespace simgpu
