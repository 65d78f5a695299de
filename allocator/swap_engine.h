#pragma once

#include <array>

#include "allocator/block.h"
#include "allocator/device.h"
#include "allocator/streams.h"

namespace tidepool::runtime {

/// Copies blocks out to host memory and in again, on private streams, so that both directions of the link can
/// be busy at once. Those out of blocks that are in use still have a stream of their own: work that they come
/// after may never end by itself, and keeps no other copy from being made
/// (docs/explanation/decisions/0019). Large copies are cut into pieces, so that the driver never holds one
/// long transfer.
///
/// Only the slow path's owner calls it. It waits on the host only for a block that more streams have used
/// than a block remembers.
class SwapEngine {
 public:
  static constexpr Bytes kPiece = MiB(8);

  SwapEngine(Device& device, StreamTable& streams) noexcept : device_(device), streams_(streams) {}
  /// In which stream a copy out is made: the first is for blocks whose uses are over.
  using Lane = std::size_t;
  static constexpr Lane kReady = 0;
  static constexpr Lane kLanes = 5;
  static constexpr Lane kNone = kLanes;

  /// Creates the streams. Nothing else may be called before it succeeded.
  Status open() noexcept;

  /// The lane for the block: kReady if its uses are over, else one in which all copies come after work of the
  /// same streams, so that none waits for what it need not; kNone: there is none just now.
  Lane lane_for(const Block& block) noexcept;
  /// Copies in the lane from here on come after everything that the block's uses name.
  Status order_after_uses(const Block& block, Lane lane) noexcept {
    return streams_.order_after_uses(*out_[lane].stream, block);
  }
  /// Copies the block to `slot`. The block stays valid. On failure some pieces may still be in flight into
  /// the slot: `started` is then set to what must pass before the slot is used again.
  DeviceResult<Use> copy_out(const Block& block, const HostSlot& slot, Lane lane, Use* started) noexcept;
  /// Copies `slot` into the block, which is mapped and idle.
  DeviceResult<Use> copy_in(Block& block, const HostSlot& slot, Use* started) noexcept;

  // TIDEPOOL_CHECK=full: copies to look at, which count as no move. As copy_out() otherwise.
  /// Of a block whose uses are over.
  DeviceResult<Use> look(const Block& block, const HostSlot& slot, Use* started) noexcept {
    return to_host(block, slot, *out_[kReady].stream, started);
  }
  /// Of a block that copy_in() was called for, behind that.
  DeviceResult<Use> look_behind_copy_in(const Block& block, const HostSlot& slot, Use* started) noexcept {
    return to_host(block, slot, *in_, started);
  }

 private:
  template <class Copy>
  static Status for_each_piece(const Block& block, const HostSlot& slot, Copy&& copy) noexcept;
  DeviceResult<Use> to_host(const Block& block, const HostSlot& slot, Stream& stream, Use* started) noexcept;

  Device& device_;
  StreamTable& streams_;
  /// Stream::index() of those that use a block still, sorted; zeros are none.
  using UserStreams = std::array<std::uint16_t, Block::kUseSlots>;
  struct Out {
    Stream* stream = nullptr;
    Use last;             ///< copy in it
    UserStreams after{};  ///< whose work its copies come after
  };
  std::array<Out, kLanes> out_;
  Stream* in_ = nullptr;
};

}  // namespace tidepool::runtime
