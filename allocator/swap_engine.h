#pragma once

#include "allocator/block.h"
#include "allocator/device.h"
#include "allocator/streams.h"

namespace tidepool::runtime {

/// Copies blocks out to host memory and in again, on two private streams, so that both directions of the link
/// can be busy at once. Large copies are cut into pieces, so that the driver never holds one long transfer.
///
/// Only the slow path's owner calls it. It waits on the host only for a block that more streams have used
/// than a block remembers.
class SwapEngine {
 public:
  static constexpr Bytes kPiece = MiB(8);

  SwapEngine(Device& device, StreamTable& streams) noexcept : device_(device), streams_(streams) {}
  /// Creates the two streams. Nothing else may be called before it succeeded.
  Status open() noexcept;

  /// What is enqueued from here on to take the block out comes after everything that its uses name.
  Status order_after_uses(const Block& block) noexcept { return streams_.order_after_uses(*out_, block); }
  /// Copies the block to `slot`. The block stays valid. On failure some pieces may still be in flight into
  /// the slot: `started` is then set to what must pass before the slot is used again.
  DeviceResult<Use> copy_out(const Block& block, const HostSlot& slot, Use* started) noexcept;
  /// Copies `slot` into the block, which is mapped and idle.
  DeviceResult<Use> copy_in(Block& block, const HostSlot& slot, Use* started) noexcept;

 private:
  template <class Copy>
  static Status for_each_piece(const Block& block, const HostSlot& slot, Copy&& copy) noexcept;

  Device& device_;
  StreamTable& streams_;
  Stream* out_ = nullptr;
  Stream* in_ = nullptr;
};

}  // namespace tidepool::runtime
