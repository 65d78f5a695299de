#pragma once

#include <atomic>

/// Captures of streams into graphs, as far as they concern the driver calls that Tidepool makes of its own
/// accord.
///
/// While one is under way, in whichever thread, some calls are forbidden to all threads (to wait for the
/// device or the context, to ask for an event of the capture), others to those that are not in relaxed mode
/// (cuThreadExchangeStreamCaptureMode: what allocates, loads code, waits or asks). A call that is forbidden
/// fails, and the capture with it. A program knows when it captures; it does not know when Tidepool waits.
namespace tidepool::runtime {

/// How many captures are under way in the process. More than there are cost some driver calls, fewer would
/// spoil a capture. Meanwhile each draw is marked, since nothing can be recorded any more in a stream that
/// has come to be captured.
extern std::atomic<int> captures_under_way;
/// OwnCalls that were told that nothing is captured.
extern std::atomic<int> unguarded_calls;

/// Counts a capture that the calling thread is about to begin, and waits until the OwnCalls have ended that
/// were told there was none. It does not wait longer than kLongestLook: a driver looks for captures when a
/// call begins, so that one which has lasted for so long waits for the device, and does no harm any more.
void begin_capture() noexcept;
/// So many captures have ended, or did not begin.
void end_captures(int count) noexcept;

/// Around a driver call of Tidepool's own that a capture might not survive. Hook-safe; does not wait.
class OwnCall {
 public:
  // Sequentially consistent on both sides: either the call sees the capture, or the capture sees the call.
  OwnCall() noexcept {
    unguarded_calls.fetch_add(1, std::memory_order_seq_cst);
    beside_capture_ = captures_under_way.load(std::memory_order_seq_cst) > 0;
    if (beside_capture_) [[unlikely]]
      unguarded_calls.fetch_sub(1, std::memory_order_release);
  }
  ~OwnCall() {
    if (!beside_capture_) [[likely]]
      unguarded_calls.fetch_sub(1, std::memory_order_release);
  }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

  /// True: a capture may be under way, and the call must be one that does not disturb it. False: none is, and
  /// none begins while this object lives (see begin_capture()).
  [[nodiscard]] bool beside_capture() const noexcept { return beside_capture_; }

 private:
  bool beside_capture_;
};

}  // namespace tidepool::runtime
