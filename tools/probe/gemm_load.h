#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/probe/memory.h"
#include "tools/probe/run.h"

namespace tidepool::probe {

/// Matrix products back to back on a stream of their own, enqueued by a thread of their own that stays well
/// ahead of the device: a gap between two of them is the device's, not the host's.
class GemmLoad {
 public:
  /// Chooses a size at which a product takes a few hundred microseconds. Throws DriverError.
  explicit GemmLoad(const Run& run);
  ~GemmLoad();
  GemmLoad(const GemmLoad&) = delete;
  GemmLoad& operator=(const GemmLoad&) = delete;

  void start();
  /// Ends the thread when what it has enqueued is done. Throws what it met.
  void stop();
  /// From the start of one product to the start of the next, ns of device time, since start().
  [[nodiscard]] const Samples& periods() const noexcept { return periods_; }
  /// What a launch took on the host, ns.
  [[nodiscard]] const Samples& launches() const noexcept { return launches_; }
  [[nodiscard]] unsigned side() const noexcept { return side_; }

 private:
  static constexpr std::size_t kRing = 64;   ///< events; more than are ever unread
  static constexpr std::size_t kAhead = 32;  ///< products enqueued and not yet seen to be done

  void launch() const;
  void work();
  void take(std::size_t product);

  const Run& run_;
  unsigned side_ = 0;
  Stream stream_;
  std::unique_ptr<DeviceBuffer> matrices_;
  std::vector<std::unique_ptr<Event>> ring_;
  Samples periods_, launches_;
  std::atomic<bool> stop_{false};
  std::string failure_;
  std::thread thread_;
};

}  // namespace tidepool::probe
