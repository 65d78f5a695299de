#pragma once

#include <cstdint>
#include <vector>

#include "tools/probe/memory.h"
#include "tools/probe/run.h"

namespace tidepool::probe {

enum class Direction { kToDevice, kToHost, kBoth };
inline constexpr Direction kDirections[] = {Direction::kToDevice, Direction::kToHost, Direction::kBoth};
/// "to device", "to host", "both".
const char* name_of(Direction direction);

enum class HostSide { kPinned, kPageable };

/// Copies pieces of one size back to back, from and to rings of host memory, one stream for each direction.
/// Throws DriverError.
class CopyRate {
 public:
  CopyRate(const Run& run, std::uint64_t ring_bytes, HostSide side);

  /// Bytes per second of copying `total` bytes in each direction asked for, both together.
  [[nodiscard]] Samples measure(std::uint64_t piece, std::uint64_t total, Direction direction,
                                Repeats repeats) const;

  /// Nanoseconds that the device takes for one copy of `bytes` in a row of them.
  [[nodiscard]] Samples one_of_many(std::uint64_t bytes, Repeats repeats) const;

 private:
  /// Host memory, pinned or as it comes.
  struct Ring {
    Ring(std::uint64_t bytes, HostSide side);
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    char* base;
    std::uint64_t bytes;
    bool pinned;
  };

  void copy(std::uint64_t piece, std::uint64_t total, Direction direction) const;

  const Run& run_;
  std::uint64_t ring_;
  Ring up_, down_;
  DeviceBuffer device_;
  Stream upward_, downward_;
};

}  // namespace tidepool::probe
