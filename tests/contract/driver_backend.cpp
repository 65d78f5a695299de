// The contract on the driver implementation, over whichever libcuda.so.1 the loader finds.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "allocator/cuda/driver_device.h"
#include "tests/contract/device_under_test.h"

namespace tidepool::contract {
namespace {

[[noreturn]] void give_up(const char* what, const char* detail) {
  std::fprintf(stderr, "device contract: %s%s\n", what, detail);
  std::exit(EXIT_FAILURE);
}

const runtime::DriverTable& driver() {
  static const runtime::DriverTable table = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) give_up("no driver: ", dlerror());
    auto* init = reinterpret_cast<decltype(&cuInit)>(dlsym(library, "cuInit"));
    if (init == nullptr || init(0) != CUDA_SUCCESS) give_up("cuInit failed", "");
    runtime::DriverTable filled;
    const char* missing = filled.fill([&](const char* name) { return dlsym(library, name); });
    if (missing != nullptr) give_up("the driver lacks ", missing);
    return filled;
  }();
  return table;
}

class DriverUnderTest final : public DeviceUnderTest {
 public:
  DriverUnderTest() {
    auto made = runtime::DriverDevice::create(driver(), 0);
    if (!made.ok()) give_up("no device", "");
    device_.reset(*made);
  }
  runtime::Device& device() override { return *device_; }

 private:
  std::unique_ptr<runtime::DriverDevice> device_;
};

}  // namespace

std::unique_ptr<DeviceUnderTest> make_device_under_test() {
  return std::make_unique<DriverUnderTest>();
}

}  // namespace tidepool::contract
