#include "tests/contract/device_under_test.h"
#include "tests/fakes/fake_device.h"

namespace tidepool::contract {
namespace {

class FakeUnderTest final : public DeviceUnderTest {
 public:
  runtime::Device& device() override { return device_; }

 private:
  fakes::FakeDevice device_;
};

}  // namespace

std::unique_ptr<DeviceUnderTest> make_device_under_test() {
  return std::make_unique<FakeUnderTest>();
}

}  // namespace tidepool::contract
