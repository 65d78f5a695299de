#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/block.h"
#include "allocator/device.h"

namespace tidepool::runtime {

/// Physical memory of one device: creates handles up to a limit, which may change, and keeps those that are
/// not in use.
///
/// Handles come in three sizes. Creating one costs far more than mapping one (research: 193 us against 1.5 us
/// for 2 MiB on an A100), and costs grow with the number of handles, not with bytes: so large blocks are made
/// of large handles, and handles return to the pool instead of to the driver.
///
/// Thread-safe. `created()` counts every byte that this process holds through the pool, in use or not.
class HandlePool {
 public:
  static constexpr std::array<Bytes, 3> kClasses{MiB(32), MiB(8), MiB(2)};

  HandlePool(Device& device, Bytes limit) noexcept
      : device_(device), limit_(limit.count()), allowed_(limit) {}
  ~HandlePool();
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  [[nodiscard]] Bytes limit() const noexcept { return Bytes(limit_.load(std::memory_order_relaxed)); }
  /// May be below what is created: then handles that come back go to the driver until it fits.
  void set_limit(Bytes limit) noexcept;
  [[nodiscard]] Bytes created() const noexcept { return Bytes(created_.load(std::memory_order_relaxed)); }
  [[nodiscard]] bool is_over_limit() const noexcept { return created() > limit(); }
  /// is_over_limit(), or always once attend_always() was called: launches take the slow path. One load.
  [[nodiscard]] bool wants_attention() const noexcept { return attention_.load(std::memory_order_relaxed); }
  void attend_always() noexcept;
  /// False if handles were created beyond the limit of that moment: for checks.
  [[nodiscard]] bool kept_its_limit() const noexcept;
  [[nodiscard]] Bytes spare() const noexcept;
  /// What can be had without taking memory from a block.
  [[nodiscard]] Bytes available() const noexcept;

  /// Moves handles for up to `missing` bytes (whole granules) to the end of `extents`: spare ones first, then
  /// new ones below the limit. Returns the bytes it could not give. A failed create counts as the limit
  /// reached; it is reported and the caller makes room instead.
  Bytes take(Bytes missing, std::vector<Extent>& extents) noexcept;
  /// The error of the latest create if it tells that the device is lost; kOk otherwise.
  [[nodiscard]] Status lost() const noexcept { return Status(lost_.load(std::memory_order_relaxed)); }
  /// Back to the pool. The handle must not be mapped.
  void put(const Extent& extent) noexcept;
  /// Gives spare handles back to the driver while there is more than `most`.
  void trim_to(Bytes most) noexcept;

 private:
  Bytes take_spare(Bytes missing, std::vector<Extent>& extents) noexcept;
  Bytes create_new(Bytes missing, std::vector<Extent>& extents) noexcept;
  void note_refusal(Status error) const noexcept;
  bool drop_one_larger_than(Bytes size) noexcept;
  bool drop_spare(std::size_t size_class) noexcept;
  void note_attention() noexcept;  // lock held

  Device& device_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> created_{0};  // changed with lock_
  std::atomic<bool> attention_{false};     // changed with lock_
  std::atomic<int> lost_{kOk.code()};      // changed with lock_
  bool always_attended_ = false;           // lock_
  mutable std::mutex lock_;
  std::array<std::vector<PhysicalHandle>, kClasses.size()> spare_;
  Bytes allowed_;  // the limit, or what was there when it was lowered and has not gone since
  Bytes spare_bytes_;
};

}  // namespace tidepool::runtime
