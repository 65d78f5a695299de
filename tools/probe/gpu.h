#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

#include "tools/probe/kernels.h"
#include "tools/probe/record.h"

namespace tidepool::probe {

/// No device that could be asked; what() says why.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One device, its primary context (current on the thread that made this) and the kernels in it.
class Gpu {
 public:
  /// Opens the driver. Throws Unavailable or DriverError.
  explicit Gpu(int ordinal);

  /// What a start record says of it.
  [[nodiscard]] Fields facts() const;
  [[nodiscard]] CUdevice device() const noexcept { return device_; }
  [[nodiscard]] CUcontext context() const noexcept { return context_; }
  [[nodiscard]] const Kernels& kernels() const noexcept { return kernels_; }
  [[nodiscard]] int attribute(CUdevice_attribute which) const;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_; }
  /// True where kernels run on the CPU.
  [[nodiscard]] static bool is_simulated() { return cu().set_kernel_body != nullptr; }
  /// What a section may hold at a time: a quarter of the device, and no more than three quarters of what is
  /// free now. A simulated device's memory is the host's: little of it.
  [[nodiscard]] std::uint64_t allowance() const;
  /// True if handles can be asked to be exportable as file descriptors: then all of them are.
  [[nodiscard]] bool exportable() const noexcept { return exportable_; }
  [[nodiscard]] CUmemAllocationProp properties() const noexcept;
  /// Cycles of its clock in so many milliseconds.
  [[nodiscard]] std::uint64_t cycles(unsigned ms) const;
  /// Blocks of this many threads that the device can hold at once: one more would run alone at the end.
  [[nodiscard]] unsigned full_grid(CUfunction function, unsigned threads) const;

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::uint64_t total_ = 0;
  bool exportable_ = true;
  Kernels kernels_;
};

/// Bytes of the device that are free now.
std::uint64_t free_bytes();

}  // namespace tidepool::probe
