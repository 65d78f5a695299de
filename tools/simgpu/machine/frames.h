#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace simgpu {

class SharedMutex;

/// One piece of device memory as every process of the machine sees it. It is in use while a process holds it
/// or a file descriptor that stands for it is open somewhere. All zero is free.
struct FrameRecord {
  std::uint64_t holders;  ///< one bit for each process slot; 0 while only a descriptor holds it
  std::uint64_t size;     ///< bytes, whole frames; 0: the record is free
  std::uint64_t offset;   ///< where it lies in the device's memory file, once placed
  std::uint64_t
      generation;  ///< grows when the record is taken and released, so that an old reference to it is found
  std::uint8_t placed;    ///< `offset` is valid
  std::uint8_t plain;     ///< belongs to a plain allocation or a pool, not to cuMemCreate
  std::uint8_t exported;  ///< a descriptor may stand for it
  std::uint8_t home;      ///< slot whose part of the file it lies in
};

/// How much memory of one device is in use, by all processes together. Bytes, in whole frames.
struct DeviceUse {
  std::atomic<std::uint64_t> now;
  std::atomic<std::uint64_t> peak;
  std::atomic<std::uint64_t> plain_now;  ///< the part of `now` that plain allocations use
  std::atomic<std::uint64_t> vmm_now;    ///< the part that cuMemCreate handed out
};

/// A device's memory as a table in the machine file. Every function is called with the machine's mutex held,
/// except that DeviceUse may be read at any time.
struct FrameTable {
  static constexpr std::size_t kMaxRecords = 131072;

  DeviceUse use;
  std::uint64_t capacity;     ///< bytes
  std::uint32_t high_water;   ///< records from here on were never used
  std::uint32_t hint;         ///< records below are in use, most likely
  std::uint32_t deaths_seen;  ///< SharedMutex::deaths() when the sums were last known to be right
  FrameRecord records[kMaxRecords];

  /// Charges `size` bytes to the device and to this slot. Null if there is no room, or no record.
  FrameRecord* take(std::uint64_t size, bool plain, unsigned slot);
  /// Frees the record, which nobody holds any more.
  void release(FrameRecord* record);
  /// Makes the sums right again after a process died while it held the mutex.
  void repair(const SharedMutex& mutex);

  [[nodiscard]] std::uint32_t index_of(const FrameRecord* record) const {
    return static_cast<std::uint32_t>(record - records);
  }
  /// The record in use that begins at this place of the memory file, or null.
  FrameRecord* at_offset(std::uint64_t offset);
};

}  // namespace simgpu
