// Where memory would be refused, what is kept for nothing but caution goes: also what came to be kept while
// room was being made.

#include <functional>
#include <memory>
#include <utility>

#include "allocator/address_tables.h"
#include "allocator/support/stats_page.h"
#include "tests/fakes/forwarding_device.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

/// A device in which other threads come in between: `meanwhile` runs once, before the next copy out.
class Interrupted final : public fakes::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void()> meanwhile;

  Status copy_to_host(void* host, DevicePtr device, Bytes size, StreamHandle stream) noexcept override {
    if (const auto once = std::exchange(meanwhile, nullptr)) once();
    return ForwardingDevice::copy_to_host(host, device, size, stream);
  }
};

/// Memory for four blocks, and four that have it.
class Full {
 public:
  Full() {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CLEAN"), "0").ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), "full").ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    stream = fake.create_program_stream(false);
    for (DevicePtr& at : blocks) {
      at = *runtime->allocate(MiB(4));
      REQUIRE(launch(at) == 0);
    }
    fake.run_all();
  }
  ~Full() {
    fake.run_all();
    CHECK(fake.errors().empty());
  }
  Full(const Full&) = delete;
  Full& operator=(const Full&) = delete;

  int launch(DevicePtr at) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream, "kernel",
                           [&] { return fake.submit(stream, "kernel", [](auto&) {}).code(); });
  }
  /// A table that leads to the block is copied to the device.
  void name(DevicePtr at) {
    AddressTables::instance().name(at.address());
    const BlockId ids[] = {runtime->find(at.address())};
    REQUIRE(runtime->hold_named(ids, "table").ok());
  }
  static void unname(DevicePtr at) { AddressTables::instance().unname(at.address()); }

  fakes::FakeDevice fake{{MiB(256), MiB(2), 1}};
  Interrupted device{fake};
  std::unique_ptr<Runtime> runtime;  // ends before its device
  StreamHandle stream{};
  DevicePtr blocks[4];
};

std::uint64_t refusals() {
  return StatsPage::instance().get(Metric::out_of_memory_total);
}

}  // namespace

TEST_CASE("shortage: what was kept meanwhile and is named no more makes room") {
  Full on;
  const std::uint64_t before = refusals();
  const DevicePtr large = *on.runtime->allocate(MiB(8));
  on.device.meanwhile = [&] {
    for (const DevicePtr at : {on.blocks[1], on.blocks[2], on.blocks[3]}) {
      on.name(at);
      Full::unname(at);  // the table is freed
    }
  };
  CHECK(on.launch(large) == 0);
  CHECK(on.device.meanwhile == nullptr);
  CHECK(refusals() == before);
  CHECK(on.runtime->check() == nullptr);
}

TEST_CASE("shortage: what was kept meanwhile and is named still does not") {
  Full on;
  const std::uint64_t before = refusals();
  const DevicePtr large = *on.runtime->allocate(MiB(8));
  const DevicePtr named[] = {on.blocks[1], on.blocks[2], on.blocks[3]};
  on.device.meanwhile = [&] {
    for (const DevicePtr at : named) on.name(at);
  };
  CHECK(on.launch(large) == kOutOfMemory.code());
  CHECK(refusals() == before + 1);
  CHECK(on.runtime->check() == nullptr);
  for (const DevicePtr at : named) Full::unname(at);
  CHECK(on.launch(large) == 0);
}

}  // namespace tidepool::runtime
