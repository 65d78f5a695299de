#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "allocator/device.h"

namespace tidepool::fakes {

/// Address space and physical memory of the fake device, with the strict rules of the CUDA driver API's
/// virtual memory management (CUDA Driver API, section "Virtual Memory Management"): whole handles at offset
/// 0, whole mappings unmapped, no access until it is set, memory alive while a handle or a mapping names it.
///
/// Bytes are real: new memory holds a pattern that nobody wrote, so that a lost copy shows. Not thread-safe;
/// FakeDevice locks.
class FakeMemory {
 public:
  FakeMemory(Bytes total, Bytes granularity) : total_(total), granularity_(granularity) {}

  [[nodiscard]] runtime::DeviceResult<runtime::DevicePtr> reserve(Bytes size);
  [[nodiscard]] runtime::Status release_addresses(runtime::DevicePtr base, Bytes size);
  [[nodiscard]] runtime::DeviceResult<runtime::PhysicalHandle> create(Bytes size);
  [[nodiscard]] runtime::Status destroy(runtime::PhysicalHandle handle);
  [[nodiscard]] runtime::Status map(runtime::DevicePtr at, Bytes size, runtime::PhysicalHandle handle);
  [[nodiscard]] runtime::Status unmap(runtime::DevicePtr at, Bytes size);
  [[nodiscard]] runtime::Status set_access(runtime::DevicePtr at, Bytes size);

  /// True inside a reservation where nothing is mapped: drivers let that be unmapped, too.
  [[nodiscard]] bool is_bare(runtime::DevicePtr at, Bytes size) const;

  /// Copies into or out of device memory now. False: some byte is not mapped with access, nothing is copied.
  [[nodiscard]] bool read(runtime::DevicePtr at, void* out, Bytes size) const;
  [[nodiscard]] bool write(runtime::DevicePtr at, const void* in, Bytes size);

  [[nodiscard]] Bytes total() const noexcept { return total_; }
  [[nodiscard]] Bytes granularity() const noexcept { return granularity_; }
  [[nodiscard]] Bytes in_use() const noexcept { return in_use_; }
  [[nodiscard]] Bytes peak() const noexcept { return peak_; }
  [[nodiscard]] std::size_t mappings() const noexcept { return mappings_.size(); }

 private:
  struct Physical {
    FakeMemory* owner;
    std::uint64_t number;  ///< its handle
    std::vector<std::byte> bytes;
    Physical(FakeMemory* memory, Bytes size, std::uint64_t handle);
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;
    ~Physical();
  };
  struct Mapping {
    std::uint64_t size;
    std::shared_ptr<Physical> physical;
    bool access;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  [[nodiscard]] bool is_aligned(std::uint64_t value) const noexcept;
  [[nodiscard]] bool inside_reservation(std::uint64_t base, std::uint64_t size) const;
  /// True where whole mappings cover [base, base + size) exactly.
  [[nodiscard]] bool covered_exactly(std::uint64_t base, std::uint64_t size) const;
  /// What a handle names, which is its memory also after its destruction while that is mapped; or null.
  [[nodiscard]] std::shared_ptr<Physical> physical_of(std::uint64_t handle) const;
  [[nodiscard]] Mappings::const_iterator mapping_of(std::uint64_t address) const;
  /// Calls f(bytes of the mapping, count) along the range; false where the range is not all accessible.
  template <class F>
  bool along(std::uint64_t base, std::uint64_t size, F f) const;

  Bytes total_;
  Bytes granularity_;
  Bytes in_use_;
  Bytes peak_;
  std::uint64_t next_address_ = 0x7000'0000'0000;
  std::uint64_t next_handle_ = 1;
  std::map<std::uint64_t, std::uint64_t> reservations_;
  std::map<std::uint64_t, std::shared_ptr<Physical>> handles_;
  Mappings mappings_;
};

}  // namespace tidepool::fakes
