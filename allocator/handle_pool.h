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
/// A handle is as large as the block that it was made for, up to 128 MiB. What mapping costs goes with the
/// number of handles, not with their size, and giving one back to the driver for one that fits costs less
/// than mapping two (docs/explanation/decisions/0026).
///
/// Thread-safe. `created()` counts every byte that this process holds through the pool, in use or not.
class HandlePool {
 public:
  /// Larger ones would save under a fiftieth of the time that copying their content takes.
  static constexpr Bytes kLargest = MiB(128);

  HandlePool(Device& device, Bytes limit) noexcept
      : device_(device), limit_(limit.count()), allowed_(limit) {}
  ~HandlePool();
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  [[nodiscard]] Bytes limit() const noexcept { return Bytes(limit_.load(std::memory_order_relaxed)); }
  /// May be below what is created: then handles that come back go to the driver until it fits.
  void set_limit(Bytes limit) noexcept;
  [[nodiscard]] Bytes created() const noexcept { return Bytes(created_.load(std::memory_order_relaxed)); }
  /// In how many handles that is.
  [[nodiscard]] std::size_t handles() const noexcept { return handles_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_over_limit() const noexcept { return created() > limit(); }
  /// is_over_limit(), or always once attend_always() was called: launches take the slow path. One load.
  [[nodiscard]] bool wants_attention() const noexcept { return attention_.load(std::memory_order_relaxed); }
  void attend_always() noexcept;
  /// False if handles were created beyond the limit of that moment: for checks.
  [[nodiscard]] bool kept_its_limit() const noexcept;
  [[nodiscard]] Bytes spare() const noexcept;
  /// What can be had without taking memory from a block.
  [[nodiscard]] Bytes available() const noexcept;

  /// Moves handles for up to `missing` bytes (whole granules) to the end of `extents`, as few as may be:
  /// spare ones that fit, else new ones, for which spare ones go back to the driver where the limit asks for
  /// it. Nothing unless so much is available(). Returns the bytes it could not give: a driver that gives less
  /// than the limit is reported, and what it gives is taken in smaller pieces.
  Bytes take(Bytes missing, std::vector<Extent>& extents) noexcept;
  /// The error of the latest create if it tells that the device is lost; kOk otherwise.
  [[nodiscard]] Status lost() const noexcept { return Status(lost_.load(std::memory_order_relaxed)); }
  /// Back to the pool. The handle must not be mapped.
  void put(const Extent& extent) noexcept;
  /// Gives spare handles back to the driver while there is more than `most`.
  void trim_to(Bytes most) noexcept;

 private:
  static constexpr Bytes kGranule = MiB(2);
  static constexpr std::size_t kSizes = kLargest / kGranule;

  static constexpr std::size_t index_of(Bytes size) noexcept { return size / kGranule - 1; }
  static constexpr Bytes size_at(std::size_t index) noexcept { return kGranule * (index + 1); }
  bool take_spare(Bytes size, std::vector<Extent>& extents) noexcept;
  void note_refusal(Status error) const noexcept;
  bool trade(Bytes size, std::vector<Extent>& extents) noexcept;
  bool create(Bytes size, std::vector<Extent>& extents) noexcept;
  Bytes take_pieces(Bytes missing, std::vector<Extent>& extents) noexcept;
  bool make_way(Bytes size) noexcept;
  bool drop_best(Bytes excess) noexcept;
  bool drop_spare(std::size_t index) noexcept;
  void note_attention() noexcept;  // lock held

  Device& device_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> created_{0};  // changed with lock_
  std::atomic<std::size_t> handles_{0};    // changed with lock_
  std::atomic<bool> attention_{false};     // changed with lock_
  std::atomic<int> lost_{kOk.code()};      // changed with lock_
  bool always_attended_ = false;           // lock_
  mutable std::mutex lock_;
  std::array<std::vector<PhysicalHandle>, kSizes> spare_;  // by size
  Bytes allowed_;  // the limit, or what was there when it was lowered and has not gone since
  Bytes spare_bytes_;
};

}  // namespace tidepool::runtime
