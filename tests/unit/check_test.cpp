// TIDEPOOL_CHECK: what is broken is said at the next turn that meets it, and only where it was asked for.

#include <string_view>

#include "allocator/support/message.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

std::uint64_t said() {
  return times_reported(Msg::TP3002);
}

struct OnFake {
  explicit OnFake(const char* check) {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), check).ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    stream = device.create_program_stream(false);
  }
  ~OnFake() { device.run_all(); }
  OnFake(const OnFake&) = delete;
  OnFake& operator=(const OnFake&) = delete;

  bool launch(DevicePtr at) {
    const BlockId set[] = {runtime->find(at.address())};
    return runtime->launch(set, stream, "kernel",
                           [&] { return device.submit(stream, "kernel", [](auto&) {}).code(); }) == 0;
  }

  fakes::FakeDevice device{{MiB(256), MiB(2), 1}};
  StreamHandle stream;
  std::unique_ptr<Runtime> runtime;
};

}  // namespace

TEST_CASE("check: a broken block is named by the turn that brings it, where checks are on") {
  const std::string_view level = GENERATE(as<std::string_view>{}, "off", "cheap", "full");
  INFO(level);
  OnFake on(level.data());
  const DevicePtr one = *on.runtime->allocate(MiB(12));
  const DevicePtr other = *on.runtime->allocate(MiB(12));
  const std::uint64_t before = said();
  CHECK(on.launch(one));
  CHECK(said() == before);
  Block& block = on.runtime->arena().block(on.runtime->find(other.address()));
  block.set_requested(MiB(20));  // more than its addresses
  CHECK(on.launch(other));
  CHECK(said() - before == (level == "off" ? 0 : 1));
  block.set_requested(MiB(12));
  CHECK(on.launch(one));
  CHECK(said() - before == (level == "off" ? 0 : 1));
}

TEST_CASE("check: a broken sum is named by any turn that brings something, where checks are on") {
  const std::string_view level = GENERATE(as<std::string_view>{}, "off", "cheap", "full");
  INFO(level);
  OnFake on(level.data());
  const DevicePtr one = *on.runtime->allocate(MiB(8));
  const DevicePtr other = *on.runtime->allocate(MiB(4));
  CHECK(on.launch(one));
  // It is freed with memory that nobody created.
  Block& block = on.runtime->arena().block(on.runtime->find(one.address()));
  const std::vector<Extent> extents = block.extents;
  block.extents.push_back({PhysicalHandle{}, MiB(8), true, true});
  REQUIRE(on.runtime->free(one).ok());
  const std::uint64_t before = said();
  CHECK(on.launch(other));
  CHECK(said() - before == (level == "off" ? 0 : 1));
  block.extents = extents;
}

}  // namespace tidepool::runtime
