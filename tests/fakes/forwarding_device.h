#pragma once

#include "allocator/device.h"

namespace tidepool::fakes {

/// A Device that does what another one does. Tests derive from it to let something happen in the middle of a
/// call, where another thread could run, or to have one call behave differently.
class ForwardingDevice : public runtime::Device {
 public:
  explicit ForwardingDevice(runtime::Device& device) noexcept : device_(device) {}

  [[nodiscard]] unsigned number() const noexcept override { return device_.number(); }
  [[nodiscard]] Bytes total_memory() const noexcept override { return device_.total_memory(); }
  [[nodiscard]] Bytes granularity() const noexcept override { return device_.granularity(); }
  runtime::DeviceResult<runtime::DevicePtr> reserve(Bytes size) noexcept override {
    return device_.reserve(size);
  }
  runtime::Status release_addresses(runtime::DevicePtr base, Bytes size) noexcept override {
    return device_.release_addresses(base, size);
  }
  runtime::DeviceResult<runtime::PhysicalHandle> create(Bytes size) noexcept override {
    return device_.create(size);
  }
  runtime::Status destroy(runtime::PhysicalHandle handle) noexcept override {
    return device_.destroy(handle);
  }
  runtime::Status map(runtime::DevicePtr at, Bytes size, runtime::PhysicalHandle handle) noexcept override {
    return device_.map(at, size, handle);
  }
  runtime::Status unmap(runtime::DevicePtr at, Bytes size) noexcept override {
    return device_.unmap(at, size);
  }
  runtime::Status set_access(runtime::DevicePtr at, Bytes size) noexcept override {
    return device_.set_access(at, size);
  }
  runtime::DeviceResult<runtime::StreamHandle> create_stream() noexcept override {
    return device_.create_stream();
  }
  runtime::DeviceResult<runtime::EventHandle> create_event() noexcept override {
    return device_.create_event();
  }
  runtime::Status destroy_event(runtime::EventHandle event) noexcept override {
    return device_.destroy_event(event);
  }
  runtime::Status record(runtime::EventHandle event, runtime::StreamHandle stream) noexcept override {
    return device_.record(event, stream);
  }
  runtime::Status wait(runtime::StreamHandle stream, runtime::EventHandle event) noexcept override {
    return device_.wait(stream, event);
  }
  runtime::Status query(runtime::EventHandle event) noexcept override { return device_.query(event); }
  runtime::Status copy_to_host(void* host, runtime::DevicePtr at, Bytes size,
                               runtime::StreamHandle stream) noexcept override {
    return device_.copy_to_host(host, at, size, stream);
  }
  runtime::Status copy_to_device(runtime::DevicePtr at, const void* host, Bytes size,
                                 runtime::StreamHandle stream) noexcept override {
    return device_.copy_to_device(at, host, size, stream);
  }
  runtime::Status prepare_hash(runtime::DevicePtr memory) noexcept override {
    return device_.prepare_hash(memory);
  }
  runtime::Status hash_to_host(void* host, runtime::DevicePtr at, Bytes size, std::uint64_t number,
                               runtime::StreamHandle stream) noexcept override {
    return device_.hash_to_host(host, at, size, number, stream);
  }
  runtime::Status register_host(void* base, Bytes size) noexcept override {
    return device_.register_host(base, size);
  }
  runtime::Status unregister_host(void* base) noexcept override { return device_.unregister_host(base); }
  runtime::Status synchronize() noexcept override { return device_.synchronize(); }

 private:
  runtime::Device& device_;
};

}  // namespace tidepool::fakes
