#pragma once

#include <array>
#include <mutex>
#include <vector>

#include "allocator/block.h"
#include "allocator/device.h"

namespace tidepool::runtime {

/// Physical memory of one device: creates handles up to a limit and keeps those that are not in use.
///
/// Handles come in three sizes. Creating one costs far more than mapping one (research: 193 us against 1.5 us
/// for 2 MiB on an A100), and costs grow with the number of handles, not with bytes: so large blocks are made
/// of large handles, and handles return to the pool instead of to the driver.
///
/// Thread-safe. `created()` counts every byte that this process holds through the pool, in use or not.
class HandlePool {
 public:
  static constexpr std::array<Bytes, 3> kClasses{MiB(32), MiB(8), MiB(2)};

  HandlePool(Device& device, Bytes limit) noexcept : device_(device), limit_(limit) {}
  ~HandlePool();
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  [[nodiscard]] Bytes limit() const noexcept { return limit_; }
  [[nodiscard]] Bytes created() const noexcept;
  [[nodiscard]] Bytes spare() const noexcept;
  /// What can be had without taking memory from a block.
  [[nodiscard]] Bytes available() const noexcept;

  /// Moves handles for up to `missing` bytes (whole granules) to the end of `extents`: spare ones first, then
  /// new ones below the limit. Returns the bytes it could not give. A failed create counts as the limit
  /// reached; it is reported once and the caller makes room instead.
  Bytes take(Bytes missing, std::vector<Extent>& extents) noexcept;
  /// Back to the pool. The handle must not be mapped.
  void put(const Extent& extent) noexcept;

 private:
  Bytes take_spare(Bytes missing, std::vector<Extent>& extents) noexcept;
  Bytes create_new(Bytes missing, std::vector<Extent>& extents) noexcept;
  bool drop_one_larger_than(Bytes size) noexcept;

  Device& device_;
  const Bytes limit_;
  mutable std::mutex lock_;
  std::array<std::vector<PhysicalHandle>, kClasses.size()> spare_;
  Bytes created_;
  Bytes spare_bytes_;
};

}  // namespace tidepool::runtime
