#pragma once

#include <cuda.h>

#include <span>
#include <vector>

#include "shim/function_ref.h"
#include "shim/gate.h"

/// The gate where several devices are managed: work in a stream of one may name memory of another.
namespace tidepool::shim {

/// What a call touches on one device.
struct TouchedThere {
  const ManagedDevice* device;
  std::vector<runtime::BlockId> ids;
};

/// What a call touches, device by device, in the order of their slots; devices of which it touches nothing
/// are left out.
class TouchedDevices {
 public:
  /// `collect(set)` adds what the call names to the set of one device; false: it cannot be told, so it may be
  /// anything there.
  explicit TouchedDevices(FunctionRef<bool(TouchSet&)> collect);
  /// Anything on every device.
  TouchedDevices();

  [[nodiscard]] bool is_known() const noexcept { return is_known_; }
  [[nodiscard]] std::span<const TouchedThere> all() const noexcept { return all_; }
  /// The blocks' numbers in records.
  [[nodiscard]] std::vector<std::uint32_t> recorded() const;

 private:
  bool is_known_ = true;
  std::vector<TouchedThere> all_;
};

/// The other pass()es (gate.h), for memory of several devices. Hook-safe but for `touched`.
CUresult pass(const TouchedDevices& touched, CUstream stream, bool per_thread, Waits waits,
              runtime::WorkName what, Reach reach, FunctionRef<CUresult()> enqueue) noexcept;

/// keep_blocks() on each device.
CUresult keep_blocks(const TouchedDevices& touched, runtime::WorkName what) noexcept;

}  // namespace tidepool::shim
