#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "allocator/wait_clock.h"

namespace tidepool::runtime {

/// Lets one thread at a time through, in order of arrival: the slow path of one device (design protocol 5).
/// First come, first served, so that a thread that needs much is not starved by threads that need little.
/// The owner waits for device work and, when launches of other threads hold all memory that could move, for
/// those launches to be enqueued; they in turn never wait for the owner.
class Turnstile {
 public:
  void enter() noexcept {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = next_++;
    turned_.wait(lock, [&] { return serving_ == mine; });
  }
  void leave() noexcept {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    turned_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turned_;
  std::uint64_t next_ = 0;
  std::uint64_t serving_ = 0;
};

class TurnstileGuard {
 public:
  explicit TurnstileGuard(Turnstile& turnstile) noexcept : turnstile_(turnstile) {
    const WaitClock clock(Metric::wait_turn_ns_total);
    turnstile_.enter();
  }
  ~TurnstileGuard() { turnstile_.leave(); }
  TurnstileGuard(const TurnstileGuard&) = delete;
  TurnstileGuard& operator=(const TurnstileGuard&) = delete;

 private:
  Turnstile& turnstile_;
};

}  // namespace tidepool::runtime
