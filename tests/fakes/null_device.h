#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "allocator/device.h"
#include "allocator/support/content_hash.h"

namespace tidepool::fakes {

/// A Device that does nothing, at once: what is left when the runtime is measured over it is the runtime.
/// Hands out addresses and handles, stores no byte, and all work is done when it is asked for.
class NullDevice final : public runtime::Device {
 public:
  /// `changes`: each hash differs from all before; else they are all the same.
  NullDevice(Bytes total, bool changes) noexcept : total_(total), changes_(changes) {}

  [[nodiscard]] unsigned number() const noexcept override { return 0; }
  [[nodiscard]] Bytes total_memory() const noexcept override { return total_; }
  [[nodiscard]] Bytes granularity() const noexcept override { return MiB(2); }
  runtime::DeviceResult<runtime::DevicePtr> reserve(Bytes) noexcept override {
    return runtime::DevicePtr(std::uint64_t{1} << 44);
  }
  runtime::Status release_addresses(runtime::DevicePtr, Bytes) noexcept override { return runtime::kOk; }
  runtime::DeviceResult<runtime::PhysicalHandle> create(Bytes) noexcept override {
    return runtime::PhysicalHandle{number_of_next()};
  }
  runtime::Status destroy(runtime::PhysicalHandle) noexcept override { return runtime::kOk; }
  runtime::Status map(runtime::DevicePtr, Bytes, runtime::PhysicalHandle) noexcept override {
    return runtime::kOk;
  }
  runtime::Status unmap(runtime::DevicePtr, Bytes) noexcept override { return runtime::kOk; }
  runtime::Status set_access(runtime::DevicePtr, Bytes) noexcept override { return runtime::kOk; }
  runtime::DeviceResult<runtime::StreamHandle> create_stream() noexcept override {
    return runtime::StreamHandle{kFirstStream + number_of_next()};
  }
  runtime::DeviceResult<runtime::EventHandle> create_event() noexcept override {
    return runtime::EventHandle{number_of_next()};
  }
  runtime::Status destroy_event(runtime::EventHandle) noexcept override { return runtime::kOk; }
  runtime::Status record(runtime::EventHandle, runtime::StreamHandle) noexcept override {
    return runtime::kOk;
  }
  runtime::Status wait(runtime::StreamHandle, runtime::EventHandle) noexcept override { return runtime::kOk; }
  runtime::Status query(runtime::EventHandle) noexcept override { return runtime::kOk; }
  runtime::Status copy_to_host(void*, runtime::DevicePtr, Bytes size,
                               runtime::StreamHandle) noexcept override {
    copied_out_ += size;
    return runtime::kOk;
  }
  runtime::Status copy_to_device(runtime::DevicePtr, const void*, Bytes,
                                 runtime::StreamHandle) noexcept override {
    return runtime::kOk;
  }
  runtime::Status prepare_hash(runtime::DevicePtr) noexcept override { return runtime::kOk; }
  runtime::Status hash_to_host(void* host, runtime::DevicePtr, Bytes, std::uint64_t number,
                               runtime::StreamHandle) noexcept override {
    const ContentHash hash{{changes_ ? number : 1, 1}};
    std::memcpy(host, &hash, sizeof hash);
    return runtime::kOk;
  }
  runtime::Status register_host(void*, Bytes) noexcept override { return runtime::kOk; }
  runtime::Status unregister_host(void*) noexcept override { return runtime::kOk; }
  runtime::Status synchronize() noexcept override { return runtime::kOk; }

  /// Not thread-safe, as is what it counts.
  [[nodiscard]] Bytes copied_out() const noexcept { return copied_out_; }

 private:
  static constexpr std::uint64_t kFirstStream = 1000;  // handles below have meanings of their own
  std::uint64_t number_of_next() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }

  const Bytes total_;
  const bool changes_;
  std::atomic<std::uint64_t> next_{1};
  Bytes copied_out_;
};

}  // namespace tidepool::fakes
