#pragma once

#include <sched.h>

#include <atomic>
#include <csignal>

namespace simgpu {

/// A lock of threads that signal handlers can try too. A std::scoped_lock holds it.
class HandlerLock {
 public:
  HandlerLock() = default;
  HandlerLock(const HandlerLock&) = delete;
  HandlerLock& operator=(const HandlerLock&) = delete;

  /// Waits. Not for signal handlers: the thread that they interrupted may have it.
  void lock() noexcept {
    while (taken_.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  void unlock() noexcept { taken_.clear(std::memory_order_release); }

  /// Calls `look`, which must not trap, with the lock held; false, without a call, where others have it all
  /// the while. Safe in a signal handler of any thread. Other handlers of this thread wait: one that never
  /// comes back (siglongjmp) would leave the lock taken for ever.
  template <class Look>
  bool try_with(const Look& look) noexcept {
    constexpr int kPatience = 1000;
    for (int i = 0; i < kPatience; ++i) {
      {
        const AllBlocked blocked;
        if (!taken_.test_and_set(std::memory_order_acquire)) {
          look();
          unlock();
          return true;
        }
      }
      ::sched_yield();
    }
    return false;
  }

 private:
  /// Signals wait while it lives.
  class AllBlocked {
   public:
    AllBlocked() noexcept {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllBlocked(const AllBlocked&) = delete;
    AllBlocked& operator=(const AllBlocked&) = delete;

   private:
    sigset_t before_{};
  };

  std::atomic_flag taken_;
};

}  // namespace simgpu
