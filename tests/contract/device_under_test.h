#pragma once

#include <memory>

#include "allocator/device.h"

namespace tidepool::contract {

/// One implementation of Device and what it stands on; each backend file defines make_device_under_test().
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  [[nodiscard]] virtual runtime::Device& device() = 0;
};

/// A fresh device with at least 64 MiB that nothing uses yet.
std::unique_ptr<DeviceUnderTest> make_device_under_test();

}  // namespace tidepool::contract
