#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "tools/simgpu/driver/operation.h"

namespace simgpu {

/// The thread that runs host functions, one after the other. As on hardware it is none of the program's: a
/// host function may wait for the thread that queued it, or for a lock that this thread holds during a call.
///
/// All functions are called with the device lock held. The thread starts with the first function and never
/// ends.
class HostThread {
 public:
  explicit HostThread(std::mutex& device_mutex) : device_mutex_(device_mutex) {}
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  [[nodiscard]] bool busy() const { return job_.has_value(); }
  /// Hands a function over, and what to do after it with the lock held. Only while the thread is not busy.
  void run(const HostCall& call, std::function<void()> done);
  /// Releases the lock until the function that runs now has ended; with patience, no longer than that.
  void wait(std::optional<std::chrono::milliseconds> patience);

 private:
  struct Job {
    HostCall call;
    std::function<void()> done;
  };

  bool start();
  [[noreturn]] void serve();
  void run_job(std::unique_lock<std::mutex>& lock);

  std::mutex& device_mutex_;
  std::condition_variable handed_over_, ended_;
  std::optional<Job> job_;  ///< from run() until it has ended
  std::uint64_t jobs_ = 0;  ///< that have ended
  bool started_ = false;
};

}  // namespace simgpu
