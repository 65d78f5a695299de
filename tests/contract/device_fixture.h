#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/contract/device_under_test.h"

/// What every case of the contract needs.
namespace tidepool::contract {

using runtime::Device;
using runtime::DevicePtr;
using runtime::EventHandle;
using runtime::kNotReady;
using runtime::PhysicalHandle;
using runtime::StreamHandle;

/// Host memory registered for as long as the object lives.
class RegisteredHost {
 public:
  RegisteredHost(Device& device, Bytes size) : device_(device), bytes_(size.count() + kPage) {
    REQUIRE(device_.register_host(data(), size).ok());
  }
  ~RegisteredHost() { CHECK(device_.unregister_host(data()).ok()); }
  RegisteredHost(const RegisteredHost&) = delete;
  RegisteredHost& operator=(const RegisteredHost&) = delete;

  std::uint8_t* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (kPage - address % kPage) % kPage;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  Device& device_;
  std::vector<std::uint8_t> bytes_;
};

struct Fixture {
  std::unique_ptr<DeviceUnderTest> owner = make_device_under_test();
  Device& device = owner->device();
  Bytes unit = device.granularity();

  DevicePtr reserve(Bytes size) {
    auto result = device.reserve(size);
    REQUIRE(result.ok());
    return *result;
  }
  PhysicalHandle create(Bytes size) {
    auto result = device.create(size);
    REQUIRE(result.ok());
    return *result;
  }
  /// A mapped range with access; the handle is returned so that the test can give it back.
  PhysicalHandle back(DevicePtr at, Bytes size) {
    const PhysicalHandle handle = create(size);
    REQUIRE(device.map(at, size, handle).ok());
    REQUIRE(device.set_access(at, size).ok());
    return handle;
  }
  StreamHandle stream() {
    auto result = device.create_stream();
    REQUIRE(result.ok());
    return *result;
  }
  EventHandle event() {
    auto result = device.create_event();
    REQUIRE(result.ok());
    return *result;
  }
  /// prepare_hash() with memory that the fixture holds.
  runtime::Status prepare_hash() {
    if (hash_memory == DevicePtr()) {
      const DevicePtr memory = reserve(unit);
      (void)back(memory, unit);
      const StreamHandle on = stream();
      RegisteredHost zeros(device, Device::kHashMemory);
      put(memory, zeros.data(), Device::kHashMemory, on);
      REQUIRE(device.synchronize().ok());
      hash_memory = memory;
    }
    return device.prepare_hash(hash_memory);
  }
  DevicePtr hash_memory;
  void put(DevicePtr at, std::uint8_t* host, Bytes size, StreamHandle on) {
    REQUIRE(device.copy_to_device(at, host, size, on).ok());
  }
  void get(std::uint8_t* host, DevicePtr at, Bytes size, StreamHandle on) {
    REQUIRE(device.copy_to_host(host, at, size, on).ok());
  }
};

}  // namespace tidepool::contract
