#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/footprint.h"
#include "tools/simgpu/driver/race_log.h"
#include "tools/simgpu/driver/stream.h"
#include "tools/simgpu/machine/machine.h"
#include "tools/simgpu/ordering/access_history.h"
#include "tools/simgpu/ordering/order.h"
#include "tools/simgpu/timing/shared_clock.h"
#include "tools/simgpu/timing/timeline.h"

namespace simgpu {

/// What the calls of this process mean for time and order, beside the scheduler that moves the bytes: when
/// each operation would run on the device, and which operations nothing orders. It follows the calls alone,
/// so it says the same for every seed.
///
/// All functions are called with the device lock held.
class Ledger {
 public:
  /// While one exists the thread does what no program has to do on hardware: in measured mode it is charged
  /// to nobody. Between calls; needs no lock.
  class OffTheClock {
   public:
    explicit OffTheClock(const Ledger& ledger);
    ~OffTheClock();
    OffTheClock(const OffTheClock&) = delete;
    OffTheClock& operator=(const OffTheClock&) = delete;

   private:
    const bool measured_;
    const std::int64_t began_;
  };

  /// `self` is the calling process.
  Ledger(Machine& machine, ProcessNumber self);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// This process uses no device after all. Nothing else is called any more.
  void leave();

  /// A call begins, which costs the host this long. In measured mode what the thread did since its last call
  /// is charged too.
  void begin_call(std::int64_t cost_ns);
  void end_call();
  /// The call waits for another process: nobody waits for this one until it ends.
  void stand_aside();
  /// The host is at work for this long, inside a call.
  void charge(std::int64_t nanos) { timeline_.charge(nanos); }

  /// The operation is queued now as the stream's next one. The host's time can pass, as it does where a queue
  /// is full.
  void enqueue(const std::shared_ptr<Stream>& stream, const Operation& operation);
  /// The operation has really run.
  void completed(const Stream& stream, std::uint64_t ticket);

  /// The host has waited for this operation, or has learned that it is done.
  void host_waited(const Stream& stream, std::uint64_t ticket);
  /// The same for everything in a context; null: in all contexts.
  void host_waited_all(const Context* context);
  /// The stream's operation with this number runs now, and the program's threads can see that without a call:
  /// a host function, or a value written to host memory. Then everything before it is known to be done.
  void host_can_see(const Stream& stream, std::uint64_t ticket);
  /// True if what the program asked for so far puts that operation before whatever the stream does next.
  /// False also where that is not known.
  [[nodiscard]] bool precedes(const Wait& operation, const Stream& stream) const;
  /// What the stream does from now on comes after something that only memory or another process knows.
  void order_unknown(const std::shared_ptr<Stream>& stream);

  /// The host is about to take these addresses away. The operations that may still use them; to be reported
  /// if it does.
  [[nodiscard]] std::vector<ordering::Race> users_of(std::uint64_t address, std::uint64_t bytes);
  void report_taken_away(const std::vector<ordering::Race>& users, const char* call) {
    races_.taken_away(users, call);
  }
  /// These addresses belong to somebody new, who knows nothing of what was done to them.
  void forget(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] bool wall() const { return wall_; }
  /// The host's virtual time.
  [[nodiscard]] std::int64_t now() const { return timeline_.now(); }
  /// Called for each kernel, copy, memset and host function as it gets its engine in virtual time, in an
  /// order that is the same in every run.
  void on_slice(std::function<void(const timing::Slice&)> sink) { timeline_.on_slice(std::move(sink)); }

 private:
  void open_lanes(Stream& stream);

  const bool wall_;
  const bool measured_;
  timing::SharedEngines shared_;
  timing::LocalEngines local_;
  std::int64_t joined_at_ = 0;
  bool joined_;
  timing::Timeline timeline_;
  ordering::Order order_;
  ordering::AccessHistory history_;
  RaceLog races_;
  // Scratch of enqueue, kept for their memory.
  Footprint footprint_;
  std::vector<timing::After> time_after_;
  std::vector<ordering::After> order_after_;
};

}  // namespace simgpu
