#pragma once

#include <cstdint>

#include "tools/probe/memory.h"

namespace tidepool::probe {

/// Two numbers in device memory that kernels add to.
class Counters {
 public:
  Counters() : buffer_(2 * sizeof(unsigned long long)) {}

  [[nodiscard]] unsigned long long* device() const noexcept { return buffer_.pointer<unsigned long long>(); }
  /// Waits for everything queued, reads both and clears them.
  struct Pair {
    std::uint64_t first, second;
  };
  [[nodiscard]] Pair take() const {
    TP_CU(cuCtxSynchronize);
    unsigned long long values[2] = {};
    TP_CU(cuMemcpyDtoH_v2, static_cast<void*>(values), buffer_.at(), sizeof values);
    TP_CU(cuMemsetD8_v2, buffer_.at(), static_cast<unsigned char>(0), sizeof values);
    TP_CU(cuCtxSynchronize);
    return {values[0], values[1]};
  }

 private:
  DeviceBuffer buffer_;
};

}  // namespace tidepool::probe
