#pragma once

#include <cuda.h>

#include <array>
#include <atomic>

#include "allocator/cuda/content_hash.h"
#include "allocator/cuda/driver.h"
#include "allocator/device.h"

namespace tidepool::runtime {

/// The kernel of content hashes in one context: loads it and launches it, by the driver's own functions.
/// Every call is made with that context current. Thread-safe, takes no lock, waits for nothing but what the
/// driver itself waits for while it loads.
///
/// Hashes meet their blocks' sums in slots of device memory, which the caller of load() gives, behind their
/// HashControl. A slot's event
/// makes its next hash wait, on the device, for the one before, whatever stream that was in.
class ContentHasher {
 public:
  explicit ContentHasher(const DriverTable& driver) noexcept : driver_(driver) {}

  /// Loads the kernel, once; `memory` as in Device::prepare_hash(). kOk: hash() can be used. kNotReady:
  /// another thread is at it. kOutOfMemory: not now. Else the driver's error, for good; kNotSupported for a
  /// driver that has no such thing.
  Status load(CUdevice ordinal, CUdeviceptr memory) noexcept;

  /// Enqueues the hash of [device, device + size) and its copy to 16 bytes at `host`. kNotSupported unless
  /// loaded; kNotReady where more threads than slots are here. On any error but these the copy may still
  /// come. `number`: as in Device::hash_to_host().
  Status hash(void* host, CUdeviceptr device, std::size_t size, std::uint64_t number,
              CUstream stream) noexcept;

 private:
  enum class State : std::uint8_t { kUnloaded, kLoading, kLoaded, kFailed };
  struct Slot {
    std::atomic<bool> taken{false};
    CUevent done = nullptr;  ///< of the last hash in it; the owner's
  };

  Status find_all(CUdevice ordinal) noexcept;
  Slot* take_slot() noexcept;
  Status enqueue(Slot& slot, void* host, CUdeviceptr device, std::size_t size, std::uint64_t number,
                 CUstream stream, bool* dirty) noexcept;
  [[nodiscard]] unsigned grid_for(std::size_t size) const noexcept;

  const DriverTable& driver_;
  std::atomic<State> state_{State::kUnloaded};
  Status failure_ = kOk;  // written before state_ says kFailed
  // Written before state_ says kLoaded. The module stays until the context ends.
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr memory_ = 0;  // HashControl, then slots
  unsigned full_grid_ = 1;
  std::atomic<unsigned> next_{0};
  std::array<Slot, kHashSlots> slots_;
};

}  // namespace tidepool::runtime
